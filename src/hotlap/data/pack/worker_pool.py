"""Several processes that pack, each its share of the shards."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess

from hotlap.data.errors import PackError
from hotlap.data.exit_reason import cause, kills_so_far
from hotlap.data.pack.job import Job, Told

EVERY_SECONDS = 0.2


class WorkerPool:
    """Packs shards in forked processes; none outlives `run`, whatever ends it."""

    def __init__(self, job: Job, shards: list[int], workers: int) -> None:
        self._context = multiprocessing.get_context("fork")
        self._shares = [shards[index::workers] for index in range(workers)]
        self._job = job
        self._processes: dict[Connection, ForkProcess] = {}

    def run(self, told: Told) -> None:
        """Pack all.

        Raises:
            PackError: a process met an error, or was killed.
        """
        kills = kills_so_far()
        try:
            for share in filter(None, self._shares):
                self._start(share)
            while self._processes:
                for pipe in wait(list(self._processes)):
                    self._hear(pipe, told, kills)  # type: ignore[arg-type]
        finally:
            self._end()

    def _start(self, share: list[int]) -> None:
        mine, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(
            target=_work, args=(self._job, share, theirs, os.getpid()), daemon=True
        )
        process.start()
        theirs.close()
        self._processes[mine] = process

    def _hear(self, pipe: Connection, told: Told, kills: int) -> None:
        try:
            message = pipe.recv()
        except EOFError:
            process = self._processes.pop(pipe)
            raise PackError(
                f"a packing process {cause(process, kills)}; what is packed so far stays: give the "
                "same command again"
            ) from None
        if isinstance(message, Exception):
            raise message
        if message is None:
            self._processes.pop(pipe).join()
        else:
            told(*message)

    def _end(self) -> None:
        for process in self._processes.values():
            process.kill()
        for pipe, process in self._processes.items():
            process.join()
            pipe.close()
        self._processes.clear()


def _work(job: Job, share: list[int], pipe: Connection, parent: int) -> None:
    """Run in the process: pack, and send (samples, bytes, bad) or the error; None at the end."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
    torch.set_num_threads(1)
    report = _Report(pipe, parent)
    try:
        job.run(share, report.told)
        report.flush()
        pipe.send(None)
    except Exception as error:
        ours = isinstance(error, PackError)
        why = f"packing failed: {type(error).__name__}: {error}"
        pipe.send(error if ours else PackError(why))


class _Report:
    """Gathers small progress into few messages."""

    def __init__(self, pipe: Connection, parent: int) -> None:
        self._send: Callable[[tuple[int, ...]], None] = pipe.send
        self._parent = parent
        self._sum = [0, 0, 0]
        self._sent = time.monotonic()

    def told(self, samples: int, size: int, bad: int) -> None:
        self._sum = [self._sum[0] + samples, self._sum[1] + size, self._sum[2] + bad]
        if time.monotonic() > self._sent + EVERY_SECONDS or bad:
            self.flush()

    def flush(self) -> None:
        if os.getppid() != self._parent:
            os._exit(1)  # nobody is left to pack for
        self._send(tuple(self._sum))
        self._sum, self._sent = [0, 0, 0], time.monotonic()
