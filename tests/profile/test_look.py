import signal

import pytest
from click.testing import CliRunner

from hotlap.cli.profile import profile
from hotlap.core.spec import Mode
from hotlap.profile.look import Bounds, Look, look
from hotlap.trial.launch import Setting


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
        "steps": 200,
        "seconds": 20.0,
        "least": 3.0,
        "layers": True,
        "stop": True,
        "dataset": True,
    }


@pytest.mark.parametrize(
    "options", [["--steps", "-5"], ["--steps", "0"], ["--steps", "x"], ["--budget", "-1"]]
)
def test_senseless_bounds_are_refused(options):
    done = CliRunner().invoke(profile, [*options, "python", "train.py"])
    assert done.exit_code == 2
    assert options[0] in done.output
