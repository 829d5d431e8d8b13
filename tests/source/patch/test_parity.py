"""After `patch --write` a plain run is what `hotlap run` was: the same losses, the same speed."""

import re
import subprocess
import sys

import pytest

from hotlap.trial.race import Rules
from patchable.racing import DEMO, HERE, SCRIPTS, patched_copy, run_against_patched


def output(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, timeout=240, check=True
    )
    return re.sub(r"\(\d.*? s\)", "", done.stdout)


def test_the_demo_prints_the_same_patched_as_under_run(tmp_path):
    copy, recipe = patched_copy("digits", tmp_path), HERE / "digits.toml"
    run = ("-m", "hotlap", "run", "-q", "--recipe", str(recipe), sys.executable, str(DEMO))
    expected = output(*run, "--epochs", "1")
    assert "train loss" in expected
    assert output(str(copy), "--epochs", "1") == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_patched_scripts_race_level_with_run(name, tmp_path):
    found = run_against_patched(name, tmp_path, Rules(seconds=45, precision=0.015))
    assert found.parity.kept, found.parity.reason
    assert found.within, found.race.estimate
