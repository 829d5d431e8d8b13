"""Each tier on this machine, against what a trial may do to the files beside it."""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from hotlap.core.errors import UsageError
from hotlap.core.spec import Mode, Tier
from hotlap.isolation.tiers import FORCED, WRITABLE, isolation
from hotlap.isolation.tree_diff import changed, tree_hash
from hotlap.trial.foreground import run_foreground
from hotlap.trial.launch import Setting

HARM = "echo more >> mine; rm -rf folder; mkdir folder; echo new > folder/new; cat folder/new mine"


Force = Callable[[Tier], None]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "old").write_text("old\n")
    (tmp_path / "mine").write_text("mine\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(project: Path, command: str) -> tuple[int, str]:
    output = project / ".hotlap" / "log"
    output.parent.mkdir(exist_ok=True)
    setting = Setting(
        ("sh", "-c", command), Mode.RACE, scratch=project / ".hotlap" / "scratch", output=output
    )
    return run_foreground(setting, lambda _: False), output.read_text()


def test_an_overlay_takes_what_a_shell_does(project: Path, force: Force) -> None:
    force(Tier.OVERLAY)
    before = tree_hash(project, [".hotlap"])
    code, said = run(project, HARM)
    assert (code, said) == (0, "new\nmine\nmore\n")
    assert changed(before, tree_hash(project, [".hotlap"])) == ()
    assert not list((project / ".hotlap" / "scratch").iterdir())


def test_layers_are_not_seen_inside(project: Path, force: Force) -> None:
    force(Tier.OVERLAY)
    code, said = run(project, "find .hotlap -name layers; ls .hotlap/scratch | wc -l")
    assert (code, said) == (0, "1\n")


def test_the_temporary_folder_is_shared(project: Path, force: Force) -> None:
    force(Tier.OVERLAY)
    with tempfile.TemporaryDirectory() as folder:
        assert run(project, f"echo real > {folder}/file")[0] == 0
        assert Path(folder, "file").read_text() == "real\n"


def test_landlock_refuses_and_says_so(project: Path, force: Force) -> None:
    force(Tier.LANDLOCK)
    before = tree_hash(project, [".hotlap"])
    code, said = run(project, HARM)
    assert "ermission denied" in said
    assert code
    assert changed(before, tree_hash(project, [".hotlap"])) == ()


def test_landlock_leaves_a_temporary_folder(project: Path, force: Force) -> None:
    force(Tier.LANDLOCK)
    assert run(project, "mktemp")[0] == 0


def test_without_isolation_the_harm_is_real(project: Path, force: Force) -> None:
    force(Tier.OFF)
    before = tree_hash(project, [".hotlap"])
    assert run(project, HARM)[0] == 0
    assert set(changed(before, tree_hash(project, [".hotlap"]))) == {
        "folder/new", "folder/old", "mine",
    }  # fmt: skip


def test_an_unknown_tier_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FORCED, "bunker")
    with pytest.raises(UsageError, match="no such tier"):
        isolation(project)


def test_what_is_tried_leaves_nothing(project: Path, force: Force) -> None:
    force(Tier.OVERLAY)
    assert [path.name for path in project.rglob("*") if "probe" in path.name] == []
    assert not list((project / ".hotlap" / "scratch").iterdir())


RENAMES = """
import os, pathlib, tempfile
os.rename("folder", "moved")
print(pathlib.Path("moved/old").read_text(), os.path.exists("folder"))
handle, name = tempfile.mkstemp()
os.write(handle, b"fresh")
os.replace(name, "mine")
print(open("mine").read(), os.path.exists(name), sorted(os.listdir()))
"""


def test_renames_cross_as_they_do_outside(project: Path, force: Force) -> None:
    force(Tier.OVERLAY)
    (project / "rename.py").write_text(RENAMES)
    code, said = run(project, f"{sys.executable} rename.py")
    assert not code, said
    assert said.split("\n")[0] == "old"
    assert "fresh False ['.hotlap', 'mine', 'moved', 'rename.py']" in said
    assert (project / "mine").read_text() == "mine\n"


@pytest.mark.parametrize("tier", [Tier.OVERLAY, Tier.LANDLOCK])
@pytest.mark.parametrize("above", [False, True])
def test_a_writable_working_directory_is_written_for_real(
    project: Path, force: Force, monkeypatch: pytest.MonkeyPatch, tier: Tier, above: bool
) -> None:
    force(tier)
    monkeypatch.setenv(WRITABLE, str(project.parent if above else project))
    before = tree_hash(project, [".hotlap"])
    assert run(project, HARM) == (0, "new\nmine\nmore\n")
    assert set(changed(before, tree_hash(project, [".hotlap"]))) == {
        "folder/new", "folder/old", "mine",
    }  # fmt: skip
