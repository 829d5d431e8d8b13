"""Promise 1: nothing of the user's is harmed, and nothing of a trial stays alive."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from hotlap.trial.witness import changed, tree_hash

WRITER = Path(__file__).with_name("writer.py")
OURS = (".hotlap", "hotlap.toml")


@pytest.fixture(autouse=True)
def interrupts() -> Iterator[None]:
    """Children hear SIGINT, also where a shell runs the tests in the background and ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    shutil.copy(WRITER, folder / "train.py")
    (folder / "log.txt").write_text("my own log\n")
    return folder


def tune(project: Path, mark: str, *options: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "hotlap", "tune", *options, sys.executable, "train.py"],
        cwd=project,
        env=os.environ | {"HOTLAP_TEST_MARK": mark},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def alive(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            ours = process.environ().get("HOTLAP_TEST_MARK") == mark
            if ours and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def gone_within(mark: str, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not alive(mark):
            return True
        time.sleep(0.1)
    return not alive(mark)


def shared_memory() -> set[str]:
    return {path.name for path in Path("/dev/shm").iterdir()}


def test_a_tune_leaves_the_tree_as_it_was(project: Path) -> None:
    before, memory = tree_hash(project, OURS), shared_memory()
    done = tune(project, "whole", "--budget", "60s", "--only", "fused_optimizer")
    output, _ = done.communicate(timeout=200)
    assert done.returncode == 0, output
    assert changed(before, tree_hash(project, OURS)) == ()
    assert gone_within("whole", 1)
    assert not shared_memory() - memory
    assert not list((project / ".hotlap" / "scratch").iterdir())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_the_parent(project: Path, number: signal.Signals) -> None:
    killed_at(project, number, 9.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_the_parent_at_any_moment(
    project: Path, number: signal.Signals, seed: int
) -> None:
    killed_at(project, number, random.Random(seed).uniform(0.2, 30.0))


def killed_at(project: Path, number: signal.Signals, seconds: float) -> None:
    mark = f"{number.name}-{seconds}"
    before, memory = tree_hash(project, OURS), shared_memory()
    running = tune(project, mark, "--budget", "120s")
    time.sleep(seconds)
    running.send_signal(number)
    assert gone_within(mark, 5), [process.cmdline() for process in alive(mark)]
    running.communicate(timeout=10)
    assert changed(before, tree_hash(project, OURS)) == ()
    assert not shared_memory() - memory
