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
from types import CodeType
from typing import Any

from hotlap.seam.where import short, users_frame

INTERVAL = 0.02
LONGEST = 0.1
MANY = 50
SWITCH = 0.001
SWITCH_ALONE = 0.0002
TOP = 8
PAGE = os.sysconf("SC_PAGE_SIZE")

Line = tuple[str, CodeType | None, int]


class Sampler:
    """Samples the thread `thread()` while it is in `phase()`."""

    def __init__(self, thread: Callable[[], int], phase: Callable[[], str]) -> None:
        self._thread = thread
        self._phase = phase
        self._lines: Counter[Line] = Counter()
        self.resident: dict[str, int] = {}
        self.timing = False
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
        caches; ten in a second cost a program of short steps less than 1 %, a hundred 8 %.
        """
        return min(LONGEST, INTERVAL * max(1.0, self._taken / MANY))

    def _sample(self, statm: int) -> None:
        frame = sys._current_frames().get(self._thread())
        phase = self._phase()
        found = users_frame(frame)
        del frame
        if self.timing:
            key = (phase, None, 0) if found is None else (phase, found.f_code, found.f_lineno)
            self._lines[key] += 1
            self._taken += 1
        if statm >= 0:
            pages = int(os.pread(statm, 128, 0).split()[1])
            self.resident[phase] = max(self.resident.get(phase, 0), pages * PAGE)

    def lines(self) -> dict[str, list[dict[str, Any]]]:
        """By phase: the user's lines that most samples fell on, and their share of its samples."""
        phases: dict[str, Counter[tuple[CodeType | None, int]]] = {}
        for (phase, code, line), count in list(self._lines.items()):
            phases.setdefault(phase, Counter())[(code, line)] += count
        return {phase: _top(counts) for phase, counts in phases.items()}


def _top(counts: "Counter[tuple[CodeType | None, int]]") -> list[dict[str, Any]]:
    total = counts.total()
    return [
        {
            "place": f"{short(code.co_filename)}:{line}",
            "function": code.co_qualname,
            "text": source(code.co_filename, line),
            "share": count / total,
            "samples": count,
        }
        for (code, line), count in counts.most_common(TOP)
        if code is not None
    ]


def source(path: str, line: int) -> str:
    """A line of source as written, without its indentation."""
    import linecache

    return linecache.getline(path, line).strip()


@contextmanager
def _open_statm() -> Iterator[int]:
    path = Path("/proc/self/statm")
    handle = os.open(path, os.O_RDONLY) if path.exists() else -1
    try:
        yield handle
    finally:
        if handle >= 0:
            os.close(handle)
