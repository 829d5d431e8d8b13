"""`hotlap run` of a recipe that was written into the source: calm, and exact about the rest."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hotlap.cli.run import RecipeStatus
from hotlap.core.recipe import Kept, Measured, Recipe, hash_of, script_of

SCRIPT = """\
import torch

model = torch.nn.Linear(4, 2)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad(set_to_none=False)
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()
print("done")
"""
BOTH = ("fused_optimizer", "grads_to_none")


def call(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hotlap", *words],
        cwd=cwd,
        env={k: v for k, v in os.environ.items() if k != "HOTLAP_SPEC"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    name, digest = script_of(("python", "train.py"))
    measured = Measured(command="python train.py", script=name, script_hash=digest, confirmed=True)
    Recipe({name: Kept() for name in BOTH}, measured).write(tmp_path / "hotlap.toml")
    return tmp_path


def run(folder: Path, *words: str) -> list[str]:
    done = call("run", *words, sys.executable, "train.py", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    return done.stderr.splitlines()


@pytest.mark.slow
def test_a_recipe_in_the_source_is_one_calm_line(folder: Path) -> None:
    assert call("patch", "--write", cwd=folder).returncode == 0
    (line,) = run(folder)
    assert "already in the source" in line
    assert line.endswith("it can be run plainly: python train.py")
    assert run(folder, "-q") == []


@pytest.mark.slow
def test_the_program_of_a_shell_script_may_have_the_recipe(folder: Path) -> None:
    (folder / "run.sh").write_text(f"{sys.executable} train.py\n")
    name, digest = script_of(("bash", "run.sh"))
    measured = Measured(
        command="bash run.sh", script=name, script_hash=digest, program="train.py",
        program_hash=hash_of(folder / "train.py"), confirmed=True,
    )  # fmt: skip
    Recipe({name: Kept() for name in BOTH}, measured).write(folder / "hotlap.toml")
    unpatched = call("run", "bash", "run.sh", cwd=folder).stderr
    assert unpatched == "hotlap: fused_optimizer, grads_to_none on (1.00x when tuned)\n"
    assert call("patch", "--write", cwd=folder).returncode == 0
    (line,) = call("run", "bash", "run.sh", cwd=folder).stderr.splitlines()
    assert line.endswith("already in the source; it can be run plainly: bash run.sh")


@pytest.mark.slow
def test_what_is_left_is_still_applied(folder: Path) -> None:
    train = folder / "train.py"
    train.write_text(SCRIPT.replace("set_to_none=False", ""))
    (line,) = run(folder)
    assert line == "hotlap: fused_optimizer on; grads_to_none: already in the source"


def test_a_script_that_changed_otherwise_is_stale(folder: Path) -> None:
    (folder / "train.py").write_text(SCRIPT + "\n")
    first, second = run(folder)
    assert "fused_optimizer, grads_to_none on" in first
    assert "train.py has changed" in second


@pytest.mark.slow
def test_without_a_hash_it_is_seen_when_nothing_took_hold(folder: Path) -> None:
    Recipe({name: Kept() for name in BOTH}).write(folder / "hotlap.toml")
    (folder / "train.py").write_text(SCRIPT.replace("set_to_none=False", ""))
    assert run(folder)[-1] == "hotlap: grads_to_none: already in the source"


@pytest.mark.slow
def test_what_does_not_take_hold_for_another_reason_is_an_error(folder: Path) -> None:
    Recipe({"persistent_workers": Kept()}).write(folder / "hotlap.toml")
    for words in ([], ["-q"]):
        assert "persistent_workers did not take hold" in run(folder, *words)[-1]


@pytest.mark.slow
def test_a_recipe_tuned_with_sleeping_threads_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = Recipe.read(folder / "hotlap.toml")
    asleep = replace(recipe, measured=replace(recipe.measured, threads="sleeping"))
    asleep.write(folder / "hotlap.toml")
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    said = " ".join(" ".join(run(folder)).split())
    assert "it was tuned with OpenMP threads that sleep while they wait" in said
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    assert "sleep" not in " ".join(run(folder))


def test_what_found_nothing_to_change_says_what_may_be_lacking() -> None:
    status = RecipeStatus()
    status.reached = status.stepped = True
    (told,) = status.complaints(["prefetch_factor"])
    assert told == (
        "prefetch_factor did not take hold: nothing to change: no loader has worker processes, "
        "or the script chooses how many batches are loaded ahead, or the source has it already"
    )
