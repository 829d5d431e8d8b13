import signal

import pytest
from click.testing import CliRunner

from hotlap.cli.profile import profile
from hotlap.core.spec import Mode
from hotlap.profile.look import Bounds, Look, look
from hotlap.trial.launch import Setting
from hotlap.trial.trial import TimeOverError


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (None, ""),
        (0, ""),
        (-signal.SIGINT, "SIGINT"),
        (130, "interrupted"),
        (3, "exit code 3"),
        (-signal.SIGKILL, "SIGKILL"),
    ],
)
def test_why_a_profile_is_partial(code, said):
    partial = Look({}, code).partial
    assert said in partial
    assert bool(partial) == bool(said)


@pytest.mark.parametrize("code", [-signal.SIGINT, 130])
def test_interrupted_before_the_first_step(code, monkeypatch, tmp_path):
    monkeypatch.setattr("hotlap.profile.look.run_foreground", lambda *_: code)
    with pytest.raises(KeyboardInterrupt):
        look(Setting(("python",), Mode.PROFILE, scratch=tmp_path), Bounds())


def test_bounds_as_the_probe_takes_them():
    assert Bounds().options()["stop"] is True
    assert Bounds(steps=0).options()["stop"] is False
    assert Bounds(least=3.0, layers=True).options() == {
        "warmup": 5,
        "until": None,
        "steps": 200,
        "seconds": 20.0,
        "least": 3.0,
        "layers": True,
        "stop": True,
        "dataset": True,
    }


def test_the_moment_of_the_last_step_reaches_the_probe():
    assert Bounds(until=12.5).options()["until"] == 12.5


def test_a_program_that_does_not_report_in_time_is_ended(monkeypatch, tmp_path):
    monkeypatch.setattr("hotlap.profile.look.run_foreground", lambda _, see, __: see(None))
    with pytest.raises(TimeOverError, match="before a training step"):
        look(Setting(("python",), Mode.PROFILE, scratch=tmp_path), Bounds(deadline=0.0))


@pytest.mark.parametrize(
    "options", [["--steps", "-5"], ["--steps", "0"], ["--steps", "x"], ["--budget", "-1"]]
)
def test_senseless_bounds_are_refused(options):
    done = CliRunner().invoke(profile, [*options, "python", "train.py"])
    assert done.exit_code == 2
    assert options[0] in done.output
