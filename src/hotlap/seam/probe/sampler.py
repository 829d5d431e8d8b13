"""Which of the user's lines the time goes to: a thread that looks now and then.

It looks at the training thread's stack and at the phase it is in, and reads how much memory is
resident. The interval is uneven, so that it cannot fall into step with the program.
"""

import os
import random
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hotlap.seam.where import Stack, users_stack

INTERVAL = 0.02
LONGEST = 0.1
MANY = 20
SWITCH = 0.001
SWITCH_ALONE = 0.0002
PAGE = os.sysconf("SC_PAGE_SIZE")


class Sampler:
    """Samples the thread `thread()` while it is in `phase()`, from the start seldom if so told."""

    def __init__(self, thread: Callable[[], int], phase: Callable[[], str]) -> None:
        self._thread = thread
        self._phase = phase
        self.stacks: Counter[tuple[str, Stack]] = Counter()
        self.resident: dict[str, int] = {}
        self.timing = False
        self.seldom = False
        self._taken = 0
        self._end = threading.Event()

    @contextmanager
    def sampling(self) -> Iterator[None]:
        """Sample until the context ends.

        Meanwhile threads hand over sooner than after 5 ms. A sample waits for the interpreter's
        lock, so that lines which let go of it (torch's operators) are seen too often and pure
        Python too seldom: the shorter the wait, the less so. A program with threads of its own
        would pay for very short turns.
        """
        before = sys.getswitchinterval()
        alone = threading.active_count() == 1
        sys.setswitchinterval(min(before, SWITCH_ALONE if alone else SWITCH))
        thread = threading.Thread(target=self._run, name="hotlap sampler", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._end.set()
            sys.setswitchinterval(before)

    def _run(self) -> None:
        uneven = random.Random(0)  # the program's own random numbers stay as they were
        with _open_statm() as statm:
            while not self._end.wait(self._interval() * (0.5 + uneven.random())):
                self._sample(statm)

    def _interval(self) -> float:
        """Seconds between samples: the more were taken, the less another one tells.

        A sample makes the training thread wait for the interpreter's lock and come back with cold
        caches: about 0.6 ms in all. Ten in a second cost a program of short steps less than 1 %.
        """
        wanted = LONGEST if self.seldom else INTERVAL * max(1.0, self._taken / MANY)
        return min(LONGEST, wanted)

    def _sample(self, statm: int) -> None:
        frame = sys._current_frames().get(self._thread())
        phase = self._phase()
        stack = users_stack(frame)
        del frame
        if self.timing:
            self.stacks[(phase, stack)] += 1
            self._taken += 1
        if statm >= 0:
            pages = int(os.pread(statm, 128, 0).split()[1])
            self.resident[phase] = max(self.resident.get(phase, 0), pages * PAGE)


@contextmanager
def _open_statm() -> Iterator[int]:
    path = Path("/proc/self/statm")
    handle = os.open(path, os.O_RDONLY) if path.exists() else -1
    try:
        yield handle
    finally:
        if handle >= 0:
            os.close(handle)
