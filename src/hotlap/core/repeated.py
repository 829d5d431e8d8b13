"""Something to be done again and again beside the work of a context."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def repeated(call: Callable[[], object], seconds: float) -> Iterator[None]:
    """Call it every so many seconds, in a thread, for as long as the context is open.

    When the context is left, no call is under way and none will come.
    """
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(seconds):
            call()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
