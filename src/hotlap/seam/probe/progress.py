"""Reports to the parent, at intervals, how many steps have been timed."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hotlap.seam.wire import Wire

INTERVAL = 0.5


@contextmanager
def telling(address: str, steps: Callable[[], int]) -> Iterator[None]:
    """Tell until the context ends.

    On a connection of its own: the other one is the training thread's.
    """
    end = threading.Event()

    def run() -> None:
        wire, last = Wire(address), 0
        while not end.wait(INTERVAL):
            if steps() != last:
                last = steps()
                wire.send("progress", steps=last)

    threading.Thread(target=run, name="hotlap progress", daemon=True).start()
    try:
        yield
    finally:
        end.set()
