"""Every way to import torch, to start processes and to step is reached, and changes nothing."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from reaching import IDIOMS, SHAPES, TRAIN

from hotlap.core.recipe import Kept, Recipe

QUICK = (
    "looked up, then lazily imported",
    "behind another import hook",
    "distributed optimizers, which are scripted",
    "updates by p.data.add_",
    "jit.script",
)
MISSED = ("was not applied", "no Python process with torch", "could not")


def call(words, folder):
    """The command below this Python's folder of programs, with one thread."""
    programs = str(Path(sys.executable).parent)
    env = {k: v for k, v in os.environ.items() if not k.startswith("HOTLAP_")}
    env |= {"PATH": f"{programs}{os.pathsep}{env['PATH']}", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        words, cwd=folder, env=env, capture_output=True, text=True, timeout=180, check=False
    )


@pytest.fixture
def write(tmp_path):
    def written(name):
        idiom = IDIOMS[name]
        absent = [need for need in idiom.needs if importlib.util.find_spec(need) is None]
        if absent:
            pytest.skip(f"{', '.join(absent)} not installed")
        files = {"train.py": TRAIN, "shapes.py": SHAPES, "script.py": idiom.script, **idiom.files}
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(exist_ok=True, parents=True)
            (tmp_path / path).write_text(text)
        Recipe({"grads_to_none": Kept()}).write(tmp_path / "hotlap.toml")
        return idiom.command

    return written


def check_run(command, folder):
    plain = call(command, folder)
    done = call(("hotlap", "run", *command), folder)
    assert done.returncode == plain.returncode, done.stderr
    assert done.stdout == plain.stdout
    assert "trained" in done.stdout, plain.stderr
    assert not [words for words in MISSED if words in done.stderr], done.stderr


def check_profile(command, folder):
    done = call(("hotlap", "profile", "--budget", "20", *command), folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "a step on cpu" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("name", QUICK)
def test_reached_by_profile(write, tmp_path, name):
    check_profile(write(name), tmp_path)


@pytest.mark.parametrize("name", QUICK[:2])
def test_reached_by_run(write, tmp_path, name):
    check_run(write(name), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", IDIOMS)
def test_every_idiom_is_reached_by_run(write, tmp_path, name):
    check_run(write(name), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", IDIOMS)
def test_every_idiom_is_reached_by_profile(write, tmp_path, name):
    check_profile(write(name), tmp_path)
