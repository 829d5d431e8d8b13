"""Read batches in processes that write into shared memory."""

import multiprocessing
import os
import pickle
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from hotlap.common.nested import mapped
from hotlap.data.errors import LoaderError
from hotlap.data.exit_reason import cause, kills_so_far
from hotlap.data.loader.memory import Ring
from hotlap.data.loader.plan import Step
from hotlap.data.loader.reading import Fetched, Reader, Wish
from hotlap.data.loader.worker import About, Answer, work

SPARE = 3
DEFAULT = Wish(None, None, False)


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    busy: int = 0


@dataclass
class _Round:
    """One pass over the steps: what was asked for, and what has come."""

    steps: Iterator[Step]
    asked: dict[int, Step] = field(default_factory=dict)
    came: dict[int, Answer] = field(default_factory=dict)
    sent: int = 0
    given: int = 0
    over: bool = False


class Forked:
    """`workers` processes, each reading with `threads` threads.

    Args:
        reader: what reads; it reaches the processes by forking.
        shares: processes, and threads in each.
        size: bytes of a slot; a batch that does not fit goes through the pipe.
        wish: what the user asked for.
    """

    def __init__(
        self, reader: Reader, shares: tuple[int, int], size: int, wish: Wish = DEFAULT
    ) -> None:
        workers, self._threads = shares
        self._reader = reader
        self._wish = wish
        self._count = workers
        self._depth = max(wish.ahead or 0, self._threads + 1)
        self._ring = Ring(workers * self._depth + SPARE, size)
        self._kills = kills_so_far()
        self._workers: list[_Worker] = []
        weakref.finalize(self, _end, self._workers, os.getpid())
        try:
            for number in range(workers):
                self._workers.append(self._start(number))
            if wish.pin:
                self._ring.pin()
        except BaseException:
            self.close()
            raise

    def run(self, steps: Iterator[Step]) -> Iterator[tuple[Step, Fetched]]:
        """Yield every step with its batch, in order.

        Raises:
            LoaderError: a process was killed; the message says how.
        """
        now = _Round(steps)
        whole = False
        try:
            while True:
                self._ask(now)
                if now.given == now.sent:
                    whole = True
                    return
                while now.given not in now.came:
                    self._listen(now)
                step, answer = now.asked.pop(now.given), now.came.pop(now.given)
                now.given += 1
                yield step, self._opened(answer)
        finally:
            if not whole:  # left early: what the processes are at is of no use any more
                self.close()

    @property
    def alive(self) -> bool:
        """Whether its processes are there; a round that ended early ends them."""
        return bool(self._workers)

    def close(self) -> None:
        """End the processes; none is left, whatever they were doing."""
        _end(self._workers, os.getpid())

    def _start(self, number: int) -> _Worker:
        context = multiprocessing.get_context("fork")
        mine, theirs = context.Pipe()
        others = [worker.pipe for worker in self._workers]
        process = context.Process(
            target=work,
            args=(self._reader, self._ring, theirs, [mine, *others], self._about(number)),
            daemon=True,
        )
        process.start()
        theirs.close()
        return _Worker(process, mine)

    def _about(self, number: int) -> About:
        return About(number, self._count, self._threads, os.getpid(), self._wish.worker_init)

    def _ask(self, now: _Round) -> None:
        """Keep every process busy while slots are free."""
        while not now.over and self._ring.free():
            worker = min(self._workers, key=lambda worker: worker.busy)
            if worker.busy >= self._depth:
                return
            step = next(now.steps, None)
            if step is None:
                now.over = True
                return
            self._reader.ahead(step)
            self._send(worker, (now.sent, self._ring.take(), step))
            now.asked[now.sent] = step
            now.sent += 1

    def _send(self, worker: _Worker, message: object) -> None:
        try:
            worker.pipe.send_bytes(pickle.dumps(message))
        except OSError:
            self._died(worker)
        worker.busy += 1

    def _listen(self, now: _Round) -> None:
        """Wait for the next answer of any process, or for the end of one."""
        by_pipe = {worker.pipe: worker for worker in self._workers}
        for pipe in wait(list(by_pipe)):
            worker = by_pipe[pipe]  # type: ignore[index]
            try:
                answer = pickle.loads(worker.pipe.recv_bytes())
            except (EOFError, OSError):
                self._died(worker)
            worker.busy -= 1
            now.came[answer.number] = answer

    def _died(self, worker: _Worker) -> None:
        why = cause(worker.process, self._kills)
        self.close()
        raise LoaderError(f"a loader process (pid {worker.process.pid}) {why}")

    def _opened(self, answer: Answer) -> Fetched:
        layout = answer.batch
        if isinstance(layout, Exception):
            self._ring.give_back(answer.slot)
            raise layout
        if self._ring.free():
            value = layout.opened(self._ring.lent(answer.slot))
        else:  # the user keeps batches: hand out a copy rather than run out of slots
            base = self._ring.lent(answer.slot)
            value = mapped(layout.opened(base), lambda tensor: tensor.clone())
        return Fetched(self._reader.present(value), answer.replaced)


def _end(workers: list[_Worker], owner: int) -> None:
    """End processes that this process has started; a forked copy of the list ends nothing."""
    if os.getpid() != owner:
        return
    for worker in workers:
        worker.process.kill()
    for worker in workers:
        worker.process.join()
        worker.pipe.close()
    workers.clear()
