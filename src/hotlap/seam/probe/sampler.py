"""Which of the user's lines the time goes to: a thread that looks at uneven times.

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

from hotlap.seam.probe.rest import BURST, Rest
from hotlap.seam.where import Stack, users_stack

INTERVAL = 0.02
LONGEST = 0.1
RARELY = 0.2
MANY = 20
SHORT = 0.001
SHOWS = 0.004
"""Seconds: what a sample costs is much of a `SHORT` step, and shows in one below `SHOWS`."""
SWITCH = 0.001
SWITCH_ALONE = 0.0002
PAGE = os.sysconf("SC_PAGE_SIZE")


class Sampler:
    """Samples the thread `thread()` while it is in `phase()`.

    `usual` is how long a step lasts (seconds), 0 while it is not known. At `rest` nothing is known
    of phases: then a look is asked for.
    """

    def __init__(self, thread: Callable[[], int], phase: Callable[[], str], rest: Rest) -> None:
        self._thread = thread
        self._phase = phase
        self._rest = rest
        self.stacks: Counter[tuple[str, Stack]] = Counter()
        self.resident: dict[str, int] = {}
        self.timing = False
        self.usual = 0.0
        self._struck = False
        self._taken = 0
        self._end = threading.Event()

    @contextmanager
    def sampling(self) -> Iterator[None]:
        """Sample until the context ends.

        Meanwhile threads hand over sooner than after 5 ms. A sample waits for the interpreter's
        lock, so that lines which let go of it (torch's operators) are seen too often and pure
        Python too rarely: the shorter the wait, the less so. A program with threads of its own
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
                if not self._rest.resting or self._awake(uneven.random()):
                    self._sample(statm)

    def _awake(self, part: float) -> bool:
        """Ask for a look, and wait for a moment somewhere in it."""
        self._rest.ask()
        self._end.wait(self.usual * (1.5 + part * (BURST - 3)))
        return not self._rest.resting

    def struck(self) -> bool:
        """Whether a short step was hit by a sample since last asked: it took too long then."""
        hit, self._struck = self._struck, False
        return hit and 0 < self.usual < SHOWS

    def _interval(self) -> float:
        """Seconds between samples: the more were taken, the less another one tells.

        A sample makes the training thread wait for the interpreter's lock and come back with cold
        caches: about 0.6 ms in all. Of short steps it also asks the probe for a look.
        """
        if 0 < self.usual < SHORT:
            return RARELY
        return min(LONGEST, INTERVAL * max(1.0, self._taken / MANY))

    def _sample(self, statm: int) -> None:
        frame = sys._current_frames().get(self._thread())
        phase = self._phase()
        if not phase:
            return
        stack = users_stack(frame)
        del frame
        self._struck = True
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
