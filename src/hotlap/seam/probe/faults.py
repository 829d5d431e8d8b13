"""Page faults: how often this process takes fresh memory from the kernel, and what that costs."""

import mmap
import resource
from collections.abc import Callable
from time import perf_counter, thread_time
from typing import Any

PAGES = 2048
LEAST = 0.05
"""The part of a step from which page faults are worth a technique."""


def page_faults() -> int:
    """How many this process has had that needed no disk."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def faults_of(read: Callable[[], Any], samples: int) -> dict[str, float]:
    """How often reading takes fresh memory from the kernel, and what part of its time that costs.

    `faults`: page faults a sample. The cost of one is measured here, on fresh memory.
    """
    before, begin = page_faults(), perf_counter()
    read()
    seconds = perf_counter() - begin
    faults = page_faults() - before
    return {"faults": faults / samples, "share": min(1.0, faults * fault_seconds() / seconds)}


def share_of_step(rate: float, of_samples: float, waiting: float) -> float:
    """The part of a step's time that page faults take, by what one costs here.

    Args:
        rate: page faults of this process, a second.
        of_samples: their part of the time that a sample takes, which may be read elsewhere.
        waiting: the part of a step that waits for samples.

    """
    return max(min(1.0, rate * fault_seconds()), of_samples * waiting)


def fault_seconds() -> float:
    """Seconds of CPU time that one page fault takes here; a page may be a huge one.

    Not of wall time: this thread may wait for a core meanwhile.
    """
    size = PAGES * mmap.PAGESIZE
    with mmap.mmap(-1, size) as memory:
        before, begin = page_faults(), thread_time()
        for at in range(0, size, mmap.PAGESIZE):
            memory[at] = 1
        first, count = thread_time() - begin, page_faults() - before
        begin = thread_time()
        for at in range(0, size, mmap.PAGESIZE):
            memory[at] = 1
        return max(0.0, first - (thread_time() - begin)) / max(1, count)
