"""Every way to import torch, to start processes and to step is reached, and changes nothing."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from reaching import IDIOMS, SHAPES, TRAIN

from hotlap.core.errors import TrialFailedError
from hotlap.core.spec import Mode
from hotlap.trial.foreground import run_foreground
from hotlap.trial.launch import Setting
from hotlap.trial.trial import Ended, Trial

QUICK = ("updates by p.data.add_",)
SEEN = {Mode.RUN: "step", Mode.PROFILE: "profile"}
BLOCKS = 3
STEPS_PER_BLOCK = 4


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Write an idiom's files into an empty working directory; returns its command."""
    programs = str(Path(sys.executable).parent)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")
    monkeypatch.chdir(tmp_path)

    def write(name):
        idiom = IDIOMS[name]
        absent = [need for need in idiom.needs if importlib.util.find_spec(need) is None]
        if absent:
            pytest.skip(f"{', '.join(absent)} not installed")
        files = {"train.py": TRAIN, "shapes.py": SHAPES, "script.py": idiom.script, **idiom.files}
        for path, text in files.items():
            Path(path).parent.mkdir(exist_ok=True, parents=True)
            Path(path).write_text(text)
        return idiom.command

    return write


def plain(command):
    """Exit code and output of the command without hotlap."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, timeout=300, check=False,
    )  # fmt: skip
    return done.returncode, lines(done.stdout)


def below(mode, command):
    """Exit code and output below hotlap, and the kinds of messages that its processes sent."""
    seen = set()
    output = Path(f"output-{mode}")
    code = run_foreground(
        Setting(command, mode, {"grads_to_none": {}}, output=output),
        lambda message: bool(message and seen.add(message.type)),
    )
    return code, lines(output.read_text()), seen


def raced(command):
    """Exit code and output of one side of a race: some blocks, then the rest; and the blocks."""
    output = Path("output-race")
    with Trial(Setting(command, Mode.RACE, {"grads_to_none": {}}, output=output)) as trial:
        trial.first()
        for _ in range(BLOCKS):
            trial.run(STEPS_PER_BLOCK)
        with pytest.raises((Ended, TrialFailedError)):  # the latter for an exit code of its own
            trial.run(1 << 30)
        code = trial.launched.exit_code()
        return code, lines(output.read_text()), trial.blocks


def lines(text):
    """What the program printed; torchrun and gloo print times and process numbers."""
    return [line for line in text.splitlines() if line.startswith("trained") or "Error" in line]


def check(command):
    code, printed = plain(command)
    assert printed
    for mode in (Mode.RUN, Mode.PROFILE):
        found, same, seen = below(mode, command)
        assert SEEN[mode] in seen, (mode, seen, Path(f"output-{mode}").read_text())
        assert (found, same) == (code, printed), mode
        assert "broken" not in seen
    found, same, blocks = raced(command)
    assert [block.steps for block in blocks] == [1] + [STEPS_PER_BLOCK] * BLOCKS
    assert (found, same) == (code, printed), Mode.RACE


@pytest.mark.parametrize("name", QUICK)
def test_common_idioms_are_reached_and_unchanged(written, name):
    check(written(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in IDIOMS if name not in QUICK])
def test_every_idiom_is_reached_and_unchanged(written, name):
    check(written(name))
