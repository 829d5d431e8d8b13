"""Programs that hang: a race and a profile end, and say where the program stood."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from hotlap.cli.profile import profile
from hotlap.common import still
from hotlap.common.still import StillWatch
from hotlap.core.errors import TrialFailedError
from hotlap.core.spec import Mode
from hotlap.trial.launch import Setting
from hotlap.trial.trial import Trial
from light import light

HANGS = """
import time
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(10_000):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    time.sleep(0.01)
    if step == 40:
        time.sleep(3600)
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "hangs.py"
    path.write_text(light(HANGS))
    return path


def test_a_race_ends_where_a_program_stands_still(script: Path, tmp_path: Path) -> None:
    command = (sys.executable, str(script))
    setting = Setting(command, Mode.RACE, scratch=tmp_path / "s", output=tmp_path / "log")
    with Trial(setting, patience=20.0) as trial:
        trial.first()
        with pytest.raises(TrialFailedError, match="stands still behind step") as failed:
            trial.run(1000)
    assert "hotlap launch" in failed.value.hint


@pytest.mark.slow
def test_a_profile_of_a_program_that_stands_still_is_partial(script: Path) -> None:
    words = ["--patience", "20", sys.executable, str(script)]
    done = CliRunner().invoke(profile, words)
    line = light(HANGS).splitlines().index("        time.sleep(3600)") + 1
    assert f"the program stood still at hangs.py:{line}" in done.stderr
    assert "data" in done.stderr or "forward" in done.stderr


def test_only_what_neither_steps_nor_computes_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    now, used = [0.0], [0.0]
    monkeypatch.setattr(still, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def after(seconds: float, *, computes: float = 0.0, progress: int = 0) -> bool:
        found = False
        for _ in range(round(seconds)):
            now[0] += 1.0
            used[0] += computes
            found = watch.still(progress)
        return found

    watch = StillWatch(10.0, lambda: used[0])
    assert not after(30.0, computes=1.0), "an evaluation"
    assert not after(8.0)
    assert not after(8.0, progress=1), "a step"
    now[0] += 60.0
    assert not after(8.0, progress=1), "the machine was suspended"
    assert after(12.0, progress=1)
    watch.restart()
    assert not after(8.0, progress=1)
