"""Revisions of a repository as folders; the repository itself is only read."""

import json
import os
import platform
import subprocess
import sys

import pytest

from hotlap.core.errors import UsageError
from hotlap.trial.command import normalise
from hotlap.trial.revisions import Repository

AUTHOR = ("-c", "user.name=a", "-c", "user.email=a@example.org")


def git(folder, *words):
    done = subprocess.run(
        ["git", "-C", str(folder), *AUTHOR, *words], check=True, capture_output=True, text=True
    )
    return done.stdout


@pytest.fixture
def repository(tmp_path):
    top = tmp_path / "repo"
    (top / "src" / "pkg").mkdir(parents=True)
    git(tmp_path, "init", "-q", str(top))
    (top / ".gitignore").write_text("data\n*.so\n")
    for number in range(4):
        (top / "src" / "pkg" / "__init__.py").write_text(f"VERSION = {number}\n")
        (top / "train.py").write_text(
            "import json, os, sys, pkg\n"
            "there = os.path.exists('data/x')\n"
            "print(json.dumps([pkg.VERSION, os.getcwd(), there, sys.argv[1:]]))\n"
        )
        git(top, "add", "-A")
        git(top, "commit", "-qm", f"change {number}", "--allow-empty")
    (top / "data").mkdir()
    (top / "data" / "x").write_text("samples")
    (top / "src" / "pkg" / "native.so").write_text("built")
    return top


def state(top):
    shown = git(top, "--no-optional-locks", "status", "--porcelain"), git(top, "worktree", "list")
    files = {
        str(path): (path.lstat().st_mode, path.lstat().st_mtime_ns, path.read_bytes())
        for path in sorted(top.rglob("*"))
        if path.is_file()
    }
    return files, shown


def test_a_commit_runs_with_its_own_files_and_what_git_does_not_track(
    repository, tmp_path, monkeypatch
):
    monkeypatch.chdir(repository)
    monkeypatch.setenv("PYTHONPATH", str(repository / "src"))
    before = state(repository)
    found = Repository.around(repository)
    command = (sys.executable, str(repository / "train.py"), "--lr", "0.1")
    for revision, version in (("HEAD", 3), ("HEAD~1", 2), ("HEAD~3", 0)):
        with found.checked_out(found.commit(revision), tmp_path / "trees") as tree:
            assert (tree / "src" / "pkg" / "native.so").read_text() == "built"
            done = subprocess.run(
                found.command_in(tree, command), capture_output=True, text=True, check=True
            )
            assert json.loads(done.stdout) == [version, str(tree), True, ["--lr", "0.1"]]
    assert not list((tmp_path / "trees").iterdir())
    after = state(repository)
    assert {k for k in after[0] | before[0] if after[0].get(k) != before[0].get(k)} == set()
    assert after == before


def test_a_folder_below_the_root_stays_the_working_directory(repository, tmp_path, monkeypatch):
    monkeypatch.chdir(repository / "src")
    found = Repository.around(repository)
    with found.checked_out(found.commit("HEAD"), tmp_path / "trees") as tree:
        done = subprocess.run(found.command_in(tree, ("pwd",)), capture_output=True, check=True)
        assert done.stdout.decode().strip() == str(tree / "src")


def test_a_notebook_runs_as_it_was_committed(repository, tmp_path, monkeypatch):
    monkeypatch.chdir(repository)

    def write(text):
        cell = {"cell_type": "code", "source": text}
        (repository / "a.ipynb").write_text(json.dumps({"cells": [cell]}))

    write("print('then')")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "a notebook")
    write("print('now')")
    command = normalise(("a.ipynb",))
    found = Repository.around(repository)
    with found.checked_out(found.commit("HEAD"), tmp_path / "below") as tree:
        done = subprocess.run(found.command_in(tree, command), capture_output=True, check=True)
    assert done.stdout == b"then\n"
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"now\n"


def test_commits_between_two_revisions_come_oldest_first(repository):
    found = Repository.around(repository)
    good, bad = found.commit("HEAD~3"), found.commit("HEAD")
    assert [c.subject for c in found.between(good, bad)] == ["change 1", "change 2", "change 3"]
    with pytest.raises(UsageError, match="does not come after"):
        found.between(bad, good)


def test_an_unknown_revision_and_a_folder_without_repository_are_refused(repository, tmp_path):
    with pytest.raises(UsageError, match="is no revision"):
        Repository.around(repository).commit("nowhere")
    with pytest.raises(UsageError, match="is no revision"):
        Repository.around(repository).commit("--all")
    with pytest.raises(UsageError, match="in no git repository"):
        Repository.around(tmp_path)


def test_what_a_killed_process_left_is_removed_and_what_others_use_is_not(repository, tmp_path):
    below, found = tmp_path / "trees", Repository.around(repository)
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"],
                          capture_output=True, text=True, check=True).stdout.strip()  # fmt: skip
    here = platform.node()
    owners = {"gone": f"{gone} {here}", "mine": f"{os.getpid()} {here}", "far": f"{gone} x{here}"}
    for name, owner in owners.items():
        (below / name).mkdir(parents=True)
        (below / name / "owner").write_text(owner)
    (below / "unknown").mkdir()
    with found.checked_out(found.commit("HEAD"), below) as tree:
        assert {path.name for path in below.iterdir()} == {
            "mine", "far", "unknown", tree.parent.name,
        }  # fmt: skip
