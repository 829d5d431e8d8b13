"""Reports to the parent, at intervals, how many steps have been timed; and a program that hangs."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hotlap.common.still import StillWatch
from hotlap.seam.wire import Wire

INTERVAL = 0.5


@contextmanager
def telling(
    address: str, steps: Callable[[], int], patience: float, still: Callable[[], None]
) -> Iterator[None]:
    """Tell until the context ends; call `still` once the program stands still for `patience` s.

    On a connection of its own: the other one is the training thread's.
    """
    end = threading.Event()

    def run() -> None:
        wire, last = Wire(address), 0
        watch = StillWatch(patience, time.process_time)
        while not end.wait(INTERVAL):
            if steps() != last:
                last = steps()
                wire.send("progress", steps=last)
            if watch.still(last):
                still()

    threading.Thread(target=run, name="hotlap progress", daemon=True).start()
    try:
        yield
    finally:
        end.set()
