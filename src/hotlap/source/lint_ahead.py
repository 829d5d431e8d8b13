"""Processes that read and judge files ahead of lint, one for each further core.

Each goes through all files once, from another one onwards, and passes over what the cache holds by
then. So what a process has found out, the others need not, lint itself among them: it goes through
the files in their order, and its results are the same with and without such processes.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

MANY = 32
"""Files from which a process saves more than it takes to start (benchmarks/lint_speed.py)."""
MOST_PROCESSES = 8
One = TypeVar("One")


@contextmanager
def ahead(files: Sequence[One], work: Callable[[One], object]) -> Iterator[None]:
    """While the block runs, other processes `work` on the files; the cache keeps the results.

    None is started for few files, beside other threads, whose locks a copy of this process could
    not release, or where processes cannot be copied safely.
    """
    cores = min(MOST_PROCESSES, _cores()) if len(files) >= MANY else 1
    started: list[int] = []
    try:
        if threading.active_count() == 1 and sys.platform == "linux":
            step = len(files) // cores
            starts = [step * number for number in range(1, cores)]
            started += [_start((*files[at:], *files[:at]), work) for at in starts]
        yield
    finally:
        for pid in started:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def _start(files: Sequence[One], work: Callable[[One], object]) -> int:
    """Start a process that works on the files in this order, and prints nothing."""
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        for one in files:
            work(one)
    finally:
        os._exit(0)
