"""Killed with SIGKILL at any moment and resumed: bitwise the losses of a run left alone."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hotlap.engine import Checkpointer

SCRIPT = Path(__file__).with_name("killed.py")
ENV = {**os.environ, "PYTHONPATH": str(SCRIPT.parent.parent)}


def started(folder: Path, *words: str) -> "subprocess.Popen[bytes]":
    folder.mkdir(exist_ok=True)
    return subprocess.Popen([sys.executable, str(SCRIPT), str(folder), *words], env=ENV)


def entries(folder: Path) -> list[str]:
    path = folder / "losses"
    return path.read_text().splitlines() if path.exists() else []


def kill_after_some(process: "subprocess.Popen[bytes]", folder: Path, draw: random.Random) -> None:
    """Wait for a random number of further losses, then a random part of a step, and kill."""
    target = len(entries(folder)) + draw.randint(1, 60)
    while process.poll() is None and len(entries(folder)) < target:
        time.sleep(0.001)
    time.sleep(draw.uniform(0, 0.01))
    process.kill()
    process.wait()


def by_place(lines: list[str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for line in lines:
        count, pending, loss = line.split()
        found.setdefault(f"{count} {pending}", set()).add(loss)
    return found


def rounds(number: int, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    assert started(whole).wait() == 0
    plain = by_place(entries(whole))
    draw, kills, attempt = random.Random(number), 0, 0
    while kills < number:
        folder = tmp_path / f"killed-{attempt}"
        attempt += 1
        while not (folder / "finished").exists() and kills < number:
            kill_after_some(started(folder), folder, draw)
            kills += 1
        if kills >= number:
            assert started(folder).wait() == 0
        assert by_place(entries(folder)) == plain


def test_killed_once(tmp_path: Path) -> None:
    rounds(1, tmp_path)


@pytest.mark.slow
def test_killed_25_times(tmp_path: Path) -> None:
    rounds(25, tmp_path)


def kill_in_saves(number: int, folder: Path) -> None:
    draw = random.Random(number)
    for _ in range(number):
        process = started(folder, "--tight")
        kill_after_some(process, folder, draw)
        saver = Checkpointer(folder / "checkpoints")
        steps = saver.steps()
        assert steps
        assert all(saver.load(step)["count"] == step for step in steps)
        saver.close()
    assert all(len(losses) == 1 for losses in by_place(entries(folder)).values())


@pytest.mark.slow
def test_a_kill_while_saving_leaves_whole_files(tmp_path: Path) -> None:
    kill_in_saves(1, tmp_path)


@pytest.mark.slow
def test_50_kills_while_saving_leave_whole_files(tmp_path: Path) -> None:
    kill_in_saves(50, tmp_path)
