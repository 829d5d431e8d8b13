"""The line that a sample costs most at, where worker processes read them: no sampler looks there.

Some samples are read once more in this process, once the steps are timed, while another thread
notes which of the user's lines runs.
"""

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from itertools import cycle, islice
from time import perf_counter
from types import CodeType
from typing import Any

from torch.utils.data import DataLoader, IterableDataset

from hotlap.seam.probe.dataset import as_worker
from hotlap.seam.probe.sampler import SWITCH_ALONE, Turns
from hotlap.seam.where import is_users, line_of, short

SECONDS, MOST = 0.7, 256
"""Time that samples are read for, and how many at most."""
INTERVAL = 0.002
FEWEST = 20
"""Looks at the user's lines below which none is named."""


def costliest_line(loader: DataLoader[object]) -> str:
    """`file:line` of the dataset's code that takes most of the time; empty where none stands out.

    Whatever goes wrong while samples are read goes wrong here alone.
    """
    watch = _Watch(threading.get_ident())
    try:
        with as_worker(loader.dataset), watch:
            _read(loader.dataset)
    except Exception:
        return ""
    return watch.costliest()


def _read(dataset: object) -> None:
    """Read samples for a while."""
    end = perf_counter() + SECONDS
    for _ in islice(_samples(dataset), MOST):
        if perf_counter() > end:
            return


def _samples(dataset: Any) -> Iterator[object]:
    if isinstance(dataset, IterableDataset):
        yield from dataset
        return
    for index in cycle(range(len(dataset))) if len(dataset) else ():
        yield dataset[index]


class _Watch(threading.Thread):
    """Notes the innermost of the user's lines that run below `_read` in a thread.

    Meanwhile threads hand over at once: as in `Sampler.sampling`, lines that let go of the
    interpreter's lock would be seen too often, and in place of pure Python.
    """

    def __init__(self, watched: int) -> None:
        super().__init__(name="hotlap sample lines", daemon=True)
        self._watched = watched
        self._found: Counter[tuple[CodeType, int]] = Counter()
        self._over = threading.Event()
        self._turns = Turns()

    def __enter__(self) -> None:
        self._turns.shorten(SWITCH_ALONE)
        self.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()
        self._turns.restore()

    def run(self) -> None:
        """Look every few milliseconds."""
        while not self._over.wait(INTERVAL):
            frame = sys._current_frames().get(self._watched)
            while frame is not None and frame.f_code is not _read.__code__:
                if is_users(frame.f_code):
                    self._found[frame.f_code, line_of(frame)] += 1
                    break
                frame = frame.f_back

    def costliest(self) -> str:
        """The line that was seen most often."""
        if self._found.total() < FEWEST:
            return ""
        code, line = max(self._found, key=lambda place: self._found[place])
        return f"{short(code.co_filename)}:{line}"
