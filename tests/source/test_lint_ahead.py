"""Files that other processes read and judge ahead of lint."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hotlap.source import lint_ahead

FILES = 40
PROGRAM = """
import os, sys, time
from pathlib import Path
from hotlap.common.processes import children
from hotlap.source import lint, lint_ahead
from hotlap.source.config import Config
from hotlap.source.lint_cache import LintCache

lint_ahead.MANY, stop_after = int(sys.argv[2]), int(sys.argv[3])
lint_ahead._cores = lambda: 3
started, fork = [], os.fork
os.fork = lambda: started.append(1) or fork()
folder = Path(sys.argv[1])
spots = lint.lint([folder], Config(folder, hints=True), LintCache(folder / ".cache"))
for number, spot in enumerate(spots):
    print(spot.place, spot.id)
    if number + 1 == stop_after:
        spots.close()
        break
print(len(started), "started,", len(children(os.getpid())), "left")
"""
SOURCE = """\
import torch

from module_{other} import Net as Other


class Net(torch.nn.Module):
    def forward(self, x):
        return self.layer(x) * float(x.sum().item())


def train(loader):
    model, other = Net(), Other()
    optimizer = torch.optim.Adam(model.parameters())
    for x in loader:
        optimizer.zero_grad()
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        print(loss.item())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(FILES):
        source = SOURCE.format(other=(number + 1) % FILES)
        (tmp_path / f"module_{number}.py").write_text(source)
    (tmp_path / "broken.py").write_text("def f(:\n")
    return tmp_path


def linted(folder: Path, many: int, stop_after: int = 0) -> list[str]:
    command = [sys.executable, "-c", PROGRAM, str(folder), str(many), str(stop_after)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux alone")
def test_the_findings_are_the_same_with_and_without_processes_ahead(folder: Path) -> None:
    *alone, said = linted(folder, 1000)
    assert said == "0 started, 0 left"
    assert len(alone) > FILES
    for path in (folder / ".cache").rglob("*.json"):
        path.unlink()
    *together, said = linted(folder, 1)
    assert (said, together) == ("4 started, 0 left", alone)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux alone")
def test_no_process_outlives_a_lint_that_is_left_early(folder: Path) -> None:
    *_, said = linted(folder, 1, stop_after=1)
    assert said == "4 started, 0 left"


def test_no_process_is_started_for_few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("started a process"))
    done: list[int] = []
    with lint_ahead.ahead(range(lint_ahead.MANY - 1), done.append):
        pass
    assert not done
