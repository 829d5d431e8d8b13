"""One task at a time, beside the training."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class Background:
    """A thread for tasks whose failures are raised in the caller, at its next `wait`."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._last: Future[None] | None = None

    def start(self, task: Callable[..., None], *given: object) -> None:
        """Wait for the last task, then start this one."""
        self.wait()
        self._last = self._thread.submit(task, *given)

    def wait(self) -> None:
        """Wait until the last task is done; raise what went wrong with it."""
        last, self._last = self._last, None
        if last is not None:
            last.result()

    def close(self) -> None:
        """Wait, and end the thread."""
        try:
            self.wait()
        finally:
            self._thread.shutdown()
