"""Read batches in this process: in the caller's thread, or ahead of it in threads."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from hotlap.data.loader.batch_layout import size_of
from hotlap.data.loader.memory import Pool, Space
from hotlap.data.loader.plan import Step
from hotlap.data.loader.reading import Fetched, Reader

AHEAD = 4
"""Steps announced to a reader before the one that it reads, where no thread reads ahead."""


class Local:
    """Reads with `threads` threads; when it is 0, each batch as it is asked for."""

    def __init__(self, reader: Reader, threads: int, pin: bool = False) -> None:
        self._reader = reader
        self._threads = threads
        self._pin = pin
        self._pool = Pool(pin)

    def run(self, steps: Iterator[Step]) -> Iterator[tuple[Step, Fetched]]:
        """Yield every step with its batch, in order."""
        if not self._threads:
            yield from self._ahead(steps, lambda step: partial(self._read, step))
            return
        executor = ThreadPoolExecutor(self._threads, thread_name_prefix="hotlap-loader")
        try:
            yield from self._ahead(steps, lambda step: executor.submit(self._read, step).result)
        finally:
            executor.shutdown(wait=True, cancel_futures=True)

    @property
    def alive(self) -> bool:
        """Whether it can be run again: always."""
        return True

    def close(self) -> None:
        """Let go of the memory kept for use again."""
        self._pool = Pool(self._pin)

    def _ahead(
        self, steps: Iterator[Step], begin: Callable[[Step], Callable[[], Fetched]]
    ) -> Iterator[tuple[Step, Fetched]]:
        """Tell the reader of steps, and begin them, before they are waited for."""
        waiting: deque[tuple[Step, Callable[[], Fetched]]] = deque()
        for step in steps:
            self._reader.ahead(step)
            waiting.append((step, begin(step)))
            if len(waiting) > (self._threads or AHEAD):
                yield self._first(waiting)
        while waiting:
            yield self._first(waiting)

    @staticmethod
    def _first(waiting: deque[tuple[Step, Callable[[], Fetched]]]) -> tuple[Step, Fetched]:
        step, finish = waiting.popleft()
        return step, finish()

    def _read(self, step: Step) -> Fetched:
        """Read, into a buffer of the pool if the reader fills one; the first batch tells its size.

        What lies in the buffer keeps it lent.
        """
        if not self._reader.fills:
            return self._presented(self._reader.fetch(step, Space()))
        fetched = self._reader.fetch(step, Space(self._pool.lent(), pinned=self._pin))
        self._pool.size = self._pool.size or size_of(fetched.value)
        return self._presented(fetched)

    def _presented(self, fetched: Fetched) -> Fetched:
        return Fetched(self._reader.present(fetched.value), fetched.replaced)
