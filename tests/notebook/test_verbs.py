"""The verbs on notebooks of different habits: findings and changes name cell and line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from notebooks import HABITS, write

from hotlap.notebook.script import MEASURED, Notebook
from light import light

RECIPE = "[techniques.loader_workers]\nnum_workers = 2\n"


def hotlap(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hotlap", *words],
        cwd=folder,
        env=os.environ | {"HOTLAP_CACHE": str(folder / "cache")},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


EVALUATION = (
    "import torch\nfrom torch.utils.data import DataLoader\nloader = DataLoader(samples)",
    """def evaluate(model, loader):
    model.eval()
    correct = 0
    for x, y in loader:
        correct += (model(x).argmax(1) == y).sum().item()
    return correct


print(evaluate(torch.nn.Linear(2, 2), loader))""",
)


def test_lint_rewrites_cells(tmp_path: Path) -> None:
    path = write(tmp_path / "train.ipynb", *EVALUATION)
    before = Notebook(path).sources
    shown = hotlap(tmp_path, "lint", "--diff", path.name)
    assert shown.returncode == 1
    assert "+++ b/train.ipynb:cell 2" in shown.stdout
    assert Notebook(path).sources == before
    done = hotlap(tmp_path, "lint", "--fix", path.name)
    assert done.returncode == 0, done.stderr
    assert "train.ipynb:cell 2:1\n  + @torch.no_grad()" in done.stdout
    assert "1 finding fixed in train.ipynb; nothing left" in done.stdout
    assert Notebook(path).sources == [before[0], "@torch.no_grad()\n" + before[1]]


def cell_with(path: Path, text: str) -> str:
    for number, source in enumerate(Notebook(path).sources, 1):
        for line, found in enumerate(source.split("\n"), 1):
            if text in found:
                return f"{path.name}:cell {number}:{line}"
    raise AssertionError(text)


QUICK = ("magics",)
"""The habit of each commit; the others run with the slow tests."""


@pytest.mark.parametrize(
    "habit",
    [h if h in QUICK else pytest.param(h, marks=pytest.mark.slow) for h in HABITS],
)
def test_profile_lint_and_patch(habit: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"{habit}.ipynb", *HABITS[habit])
    before = path.read_text()
    profiled = hotlap(tmp_path, "profile", "--steps", "20", path.name)
    assert profiled.returncode == 0, profiled.stderr
    assert cell_with(path, "time.sleep") in profiled.stderr
    assert f" {path.name}\n" in profiled.stderr  # the command to paste
    assert path.read_text() == before
    assert "nothing-at-all" not in profiled.stdout

    found = hotlap(tmp_path, "lint", "--hints", "--format", "json", ".")
    places = {
        f"{one['path']}:cell {one['cell']}:{one['line']}"
        for one in json.loads(found.stdout)["findings"]
    }
    assert cell_with(path, "loader = DataLoader") in places

    (tmp_path / "hotlap.toml").write_text(RECIPE)
    shown = hotlap(tmp_path, "patch", path.name)
    assert f"+++ b/{cell_with(path, 'loader = ').rpartition(':')[0]}" in shown.stdout
    assert path.read_text() == before
    assert hotlap(tmp_path, "patch", "--write", path.name).returncode == 0
    after = path.read_text().splitlines()
    changed = [
        (old, new) for old, new in zip(before.splitlines(), after, strict=True) if old != new
    ]
    assert len(changed) == 1
    assert "num_workers=2" in changed[0][1]


def test_a_notebook_that_does_not_train(tmp_path: Path) -> None:
    write(tmp_path / "a.ipynb", "x = 1\nprint(x)")
    done = hotlap(tmp_path, "profile", "a.ipynb")
    assert done.returncode == 3
    assert "no training step before the program ended" in done.stderr


def test_an_error_names_the_cell(tmp_path: Path) -> None:
    write(tmp_path / "a.ipynb", "x = 1", "\nx / 0")
    (tmp_path / "hotlap.toml").write_text(RECIPE)
    done = hotlap(tmp_path, "run", "a.ipynb")
    assert done.returncode != 0
    assert "in a.ipynb:cell 2:2" in done.stderr
    for words in (("profile", "--json", "a.ipynb"), ("race", "a.ipynb", "--", "a.ipynb")):
        done = hotlap(tmp_path, *words)
        assert "hotlap: ZeroDivisionError: division by zero (a.ipynb:cell 2:2)" in done.stderr


EARLIER = light(
    """\
import time
import torch
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def train(steps, seconds):
    for _ in range(steps):
        model(torch.ones(4, 8)).mean().backward()
        optimizer.step()
        time.sleep(seconds)

train(60, 0)"""
)


@pytest.mark.slow  # the race below would be wrong by them, too
def test_steps_of_earlier_cells_do_not_count(tmp_path: Path) -> None:
    path = write(tmp_path / "cells.ipynb", EARLIER, "train(60, 0.03)", **{MEASURED: 2})
    words = ["profile", "--steps", "8", "--json", path.name]
    found = json.loads(hotlap(tmp_path, *words).stdout)
    assert found["step"] > 0.03, "those of the first cell take next to no time"


def test_a_race_of_a_cell_begins_with_it(tmp_path: Path) -> None:
    halves = [
        write(
            tmp_path / f"{name}.ipynb",
            EARLIER,
            f"train(1000, {seconds})",
            **{MEASURED: 2},
        )
        for name, seconds in (("a", 0.04), ("b", 0.01))
    ]
    words = ["race", "--json", "--budget", "4s"]
    raced = hotlap(tmp_path, *words, halves[0].name, "--", halves[1].name)
    found = json.loads(raced.stdout)
    assert found["verdict"] == "faster", raced.stderr
    assert found["a_step"] > 0.04


@pytest.mark.slow
def test_a_cell_without_training_says_so(tmp_path: Path) -> None:
    path = write(tmp_path / "cells.ipynb", EARLIER, "print(1)", **{MEASURED: 2})
    shown = hotlap(tmp_path, "profile", path.name)
    assert shown.returncode == 3
    assert "what earlier cells train does not count" in " ".join(shown.stderr.split())
