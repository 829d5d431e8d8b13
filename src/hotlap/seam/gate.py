"""Race mode: run a block of steps, report it, wait for the word to go on.

Blocks are timed here, from the word to the last step's end, so that neither the waiting nor the
messages count. A step in which an epoch began, an evaluation ran or a file was saved is *special*:
its time is kept apart, so that blocks can be compared that do not hold the same number of them.

Worker processes of loaders stand still between two blocks, and begin and stop with them: otherwise
they would read ahead in the meantime, and the batches of a short block would cost nothing.

Of several ranks each has a gate and stops after the same step, behind the optimizer, where no
collective is open: the parent lets them go on together once all have reported.
"""

import multiprocessing
import os
import resource
import signal
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict

import torch
from torch.utils.data._utils import MP_STATUS_CHECK_INTERVAL
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from hotlap.common.signals import alarm_held, signals_held
from hotlap.core.protocol import BatchDetails, BlockReport, PeakMemory, RaceDetails
from hotlap.seam.patch import replaced
from hotlap.seam.process import rank_and_world, trains
from hotlap.seam.wire import Wire

SLICE_SECONDS = 0.25
"""Of a wait with a time limit."""


class Gate:
    """Stops the training process at the end of each block."""

    def __init__(
        self,
        wire: Wire,
        first: int,
        details: Callable[[], RaceDetails | BatchDetails],
        switch: Callable[[dict[str, dict[str, object]]], None] = lambda _: None,
    ) -> None:
        self._wire = wire
        self._details = details
        self._switch = switch
        self._left = first
        self._steps = first
        self._count = 0
        self._pid = 0  # of the process that steps
        self._batches = 0
        self._marks: set[str] = set()
        self._special: list[tuple[int, str, float]] = []
        self._threads = thread_times()
        self._begin = self._last = time.perf_counter()
        self._cpu = time.process_time()
        self._usage = resource.getrusage(resource.RUSAGE_SELF)

    def elapsed(self) -> float:
        """Seconds since the block began."""
        return time.perf_counter() - self._begin

    def mark(self, kind: str) -> None:
        """Something other than a plain step happens: `eval` or `save`."""
        self._marks.add(kind)

    def epoch(self, batches: int) -> None:
        """A loader of so many batches (0: unknown) begins anew.

        The longest one is taken to be the training's: an evaluation's begins in the middle of it.
        """
        self._batches = max(self._batches, batches)
        self.mark("epoch")

    def step(self) -> None:
        """One step is over; at the end of the block report and wait."""
        self._count += 1
        self._left -= 1
        if self._marks:
            self._note()
        elif not self._left:
            _synchronise()
        self._last = time.perf_counter()
        if not self._left:
            self._report(self._last - self._begin)

    def ends(self) -> None:
        """The process ends: say after how many steps, if it made any."""
        if self._pid == os.getpid():
            self._wire.send("ended", at=self._count)

    def _note(self) -> None:
        _synchronise()
        kinds = "+".join(sorted(self._marks))
        self._special.append((self._count, kinds, time.perf_counter() - self._last))
        self._marks.clear()

    def _report(self, wall: float) -> None:
        """Stand until the word to go on comes, whatever signals come meanwhile."""
        with alarm_held(), signals_held(signal.valid_signals()):
            self._stand(wall)

    def _stand(self, wall: float) -> None:
        workers = _send_workers(signal.SIGSTOP, loader_workers(self._wire.address))
        ran, waited = (max(0.0, n - t) for n, t in zip(thread_times(), self._threads, strict=True))
        now = resource.getrusage(resource.RUSAGE_SELF)
        (rank, world), peak = rank_and_world(), peak_memory()
        self._pid = os.getpid()
        report = BlockReport(
            rank,
            world,
            wall,
            os.getpid(),
            steps=self._steps,
            at=self._count,
            cpu=time.process_time() - self._cpu,
            system=now.ru_stime - self._usage.ru_stime,
            faults=now.ru_minflt - self._usage.ru_minflt,
            special=self._special,
            batches=self._batches,
            threads=torch.get_num_threads(),
            ran=ran,
            waited=waited,
            resident=peak.resident,
            cuda=peak.cuda,
            workers=workers,
            **self._details(),
        )
        self._wire.send("block", **asdict(report))
        self._special = []
        order = self._wire.receive()
        self._steps = self._left = order["go"] if order else 1 << 60
        self._switch(order["also"] if order else {})
        self._cpu = time.process_time()
        self._usage = resource.getrusage(resource.RUSAGE_SELF)
        self._threads = thread_times()
        self._begin = self._last = time.perf_counter()
        _send_workers(signal.SIGCONT, workers)


def loader_workers(control: str) -> list[int]:
    """Worker processes of loaders and pools; not ranks that this process launched.

    Those compute gradients: one that stood still would never report its block. `control` is the
    address of the trial's control channel.
    """
    daemons = [each.pid for each in multiprocessing.active_children() if each.daemon and each.pid]
    return [pid for pid in daemons if not trains(control, pid)]


@contextmanager
def time_limits_while_running() -> Iterator[None]:
    """Let a DataLoader's `timeout` count the time in which this process runs, not stands stopped.

    A process that is stopped does not know it: the wait is made of slices, and one counts for no
    more than its length, however late it ends.
    """

    def make(original: Callable[..., tuple[bool, object]]) -> object:
        def try_get_data(loader: object, timeout: float = MP_STATUS_CHECK_INTERVAL) -> object:
            left = timeout
            while True:
                began = time.monotonic()
                found = original(loader, min(left, SLICE_SECONDS))
                left -= min(SLICE_SECONDS, time.monotonic() - began)
                if found[0] or left <= 0:
                    return found

        return try_get_data

    with replaced(_MultiProcessingDataLoaderIter, "_try_get_data", make):
        yield


def _send_workers(sign: signal.Signals, workers: list[int]) -> list[int]:
    for worker in workers:
        with suppress(OSError):  # it has ended
            os.kill(worker, sign)
    return workers


def schedstat(task: str) -> tuple[int, int]:
    """Nanoseconds that a thread, by its folder in /proc, ran, and waited for a core.

    Raises:
        OSError: the thread is gone, or the kernel does not count.
        ValueError, IndexError: the file holds something else.
    """
    with open(f"{task}/schedstat", "rb", buffering=0) as file:
        words = file.read(128).split()
    return int(words[0]), int(words[1])


def thread_times(
    tasks: str = "/proc/self/task", *, main: bool = True, only: Collection[str] | None = None
) -> tuple[float, float]:
    """Seconds that this process's threads ran, and waited for a core; 0 where not counted.

    Without `main` those of its main thread are left out; `only` names threads by their numbers.
    """
    ran = waited = 0
    try:
        threads = os.listdir(tasks) if only is None else only
        for thread in set(threads) - (set() if main else {str(os.getpid())}):
            with suppress(OSError):
                times = schedstat(f"{tasks}/{thread}")
                ran, waited = ran + times[0], waited + times[1]
    except (OSError, ValueError, IndexError):
        return 0.0, 0.0
    return ran / 1e9, waited / 1e9


def _on_cuda() -> bool:
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def _synchronise() -> None:
    if _on_cuda():
        torch.cuda.synchronize()


def peak_memory() -> PeakMemory:
    """Peak memory of this process in bytes: resident, and of the accelerator."""
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    cuda = torch.cuda.max_memory_allocated() if _on_cuda() else 0
    return PeakMemory(resident, cuda)
