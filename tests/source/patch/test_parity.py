"""After `patch --write` a plain run is what `hotlap run` was: the same losses, the same speed."""

import re
import subprocess
import sys
from statistics import geometric_mean

import pytest

from hotlap.trial.stopping import StoppingRules
from patchable.racing import DEMO, HERE, SCRIPTS, patched_copy, run_against_patched


def output(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, timeout=240, check=True
    )
    return re.sub(r"\(\d.*? s\)", "", done.stdout)


@pytest.mark.slow
def test_the_demo_prints_the_same_patched_as_under_run(tmp_path):
    copy, recipe = patched_copy("digits", tmp_path), HERE / "digits.toml"
    run = ("-m", "hotlap", "run", "-q", "--recipe", str(recipe), sys.executable, str(DEMO))
    expected = output(*run, "--epochs", "1")
    assert "train loss" in expected
    assert output(str(copy), "--epochs", "1") == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_patched_scripts_race_level_with_run(name, tmp_path):
    """Three rounds on fresh processes: one pair of processes can differ for as long as it lives."""
    rounds = []
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        found = run_against_patched(
            name, folder, StoppingRules(seconds=20, precision=0.01, launches=1)
        )
        assert found.parity.kept, found.parity.reason
        rounds.append(found.race.estimate)
    ratio = geometric_mean(estimate.ratio for estimate in rounds)
    noise = max(estimate.high / estimate.low for estimate in rounds) ** 0.5
    assert ratio * max(1.03, noise) >= 1.0, rounds
