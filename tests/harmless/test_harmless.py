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

from hotlap.isolation.tree_diff import changed, tree_hash

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


def temporary(project: Path) -> Path:
    """A temporary folder that no other run on this machine writes to."""
    folder = project.parent / "tmp"
    folder.mkdir(exist_ok=True)
    return folder


def tune(project: Path, mark: str, *options: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "hotlap", "tune", *options, sys.executable, "train.py"],
        cwd=project,
        env=os.environ | {"HOTLAP_TEST_MARK": mark, "TMPDIR": str(temporary(project))},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
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
    done = tune(project, "whole", "--budget", "25s", "--only", "fused_optimizer")
    output, _ = done.communicate(timeout=120)
    assert done.returncode == 0, output
    assert changed(before, tree_hash(project, OURS)) == ()
    assert gone_within("whole", 5), [process.cmdline() for process in alive("whole")]
    assert not shared_memory() - memory
    assert not list((project / ".hotlap" / "scratch").iterdir())


def left_over(project: Path) -> dict[str, set[str]]:
    """What a trial may leave behind on this machine, but for its processes."""
    scratch = project / ".hotlap" / "scratch"
    return {
        "shared memory": {name for name in shared_memory() if not psutil.pid_exists(_pid(name))},
        "temporary": {
            path.name for kind in ("hotlap-*", "pymp-*") for path in temporary(project).glob(kind)
        },
        "scratch": {path.name for path in scratch.iterdir()} if scratch.exists() else set(),
        "mounts": set(Path("/proc/self/mounts").read_text().splitlines()),
    }


def left_since(project: Path, before: dict[str, set[str]]) -> dict[str, set[str]]:
    return {kind: names - before[kind] for kind, names in left_over(project).items()}


def _pid(name: str) -> int:
    """The process that a shared-memory file of torch names."""
    parts = name.split("_")
    return int(parts[1]) if len(parts) > 1 and parts[1].isdigit() else 0


KILLS = ("hotlap SIGINT", "hotlap SIGTERM", "hotlap SIGKILL", "group SIGKILL", "group SIGTERM",
         "supervisor SIGKILL", "trial SIGKILL")  # fmt: skip
QUICK = ("hotlap SIGTERM", "hotlap SIGKILL", "supervisor SIGKILL")
"""Those of each commit: hotlap may clean up, may not, or is interrupted as a helper of it died."""


@pytest.mark.parametrize(
    "kill",
    [k if k in QUICK else pytest.param(k, marks=pytest.mark.slow) for k in KILLS],
)
def test_nothing_outlives_a_kill(project: Path, kill: str) -> None:
    killed_at(project, kill, 9.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kill", KILLS)
def test_nothing_outlives_a_kill_at_any_moment(project: Path, kill: str, seed: int) -> None:
    killed_at(project, kill, random.Random(f"{kill}-{seed}").uniform(0.2, 30.0))


def killed_at(project: Path, kill: str, seconds: float) -> None:
    mark = f"{kill}-{seconds}"
    before, beside = tree_hash(project, OURS), left_over(project)
    running = tune(project, mark, "--budget", "120s")
    time.sleep(seconds)
    who, name = kill.split()
    strike(running.pid, who, signal.Signals[name])
    if who in ("supervisor", "trial"):  # hotlap lives on: a trial of its failed
        running.send_signal(signal.SIGINT)
    if not gone_within(mark, 30):
        left = [process.cmdline() for process in alive(mark)]
        os.killpg(running.pid, signal.SIGKILL)
        pytest.fail(f"still there: {left}; what it said:\n{running.communicate(timeout=10)[0]}")
    running.communicate(timeout=10)
    assert changed(before, tree_hash(project, OURS)) == ()
    deadline, new = time.monotonic() + 5, left_since(project, beside)
    while any(new.values()) and time.monotonic() < deadline:  # semaphores of others come and go
        time.sleep(0.1)
        new = left_since(project, beside)
    assert new == {kind: set() for kind in new}


def strike(hotlap: int, who: str, number: signal.Signals) -> None:
    """Kill one of those that a trial consists of; where it has not started, hotlap itself."""
    if who == "group":
        os.killpg(hotlap, number)
        return
    found = [psutil.Process(hotlap)]
    below = found[0].children(recursive=True)
    if who == "supervisor":
        found = [p for p in below if "supervisor.py" in " ".join(p.cmdline())] or found
    elif who == "trial":
        found = [p for p in below if p.cmdline()[-1:] == ["train.py"]] or found
    for process in found:
        process.send_signal(number)
