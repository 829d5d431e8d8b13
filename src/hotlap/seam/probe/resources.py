"""Disk reads, page faults, memory and cores of workers, followed while steps are timed.

What a process holds for itself (private dirty pages) is taken rather than what is resident: after a
fork all of the parent's pages are resident in a worker, and each that is written to (a reference
count is enough) becomes its own.
"""

import mmap
import os
import resource
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from time import perf_counter, process_time, thread_time

from hotlap.common.processes import children
from hotlap.core.protocol import ResourceReport
from hotlap.seam.probe.waits import run_delays

INTERVAL = 1.0
ALONE = 5.0
"""Seconds between looks, with worker processes and without."""
SHARE = 0.02
"""Of the time at most spent on looking: smaps of large processes take milliseconds."""
MOST = 512
TICK = 0.5
"""Seconds between looks at the page faults of this process, which take a microsecond."""


class Resources:
    """Looks every second or so; `result` is what was seen.

    Args:
        faults_only: follow nothing but the page faults.
    """

    def __init__(self, *, faults_only: bool = False) -> None:
        self._faults_only = faults_only
        self._looks: list[tuple[float, dict[int, int]]] = []
        self._disk: list[tuple[float, dict[int, tuple[int, int]]]] = []
        self._faults: list[tuple[float, int]] = []
        self._cores = Cores()
        self._counting = True
        self._end = threading.Event()
        self._busy = threading.Lock()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look until the context ends."""
        thread = threading.Thread(target=self._run, name="hotlap resources", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._end.set()

    def _run(self) -> None:
        due = 0.0
        while not self._end.wait(TICK if self._faults else 0.0):
            self._count_faults()
            begin = perf_counter()
            if begin >= due and not self._faults_only:
                usual = INTERVAL if self.look() else ALONE
                end = perf_counter()
                due = end + max(usual, (end - begin) / SHARE)

    def steps_over(self) -> None:
        """The timed steps are over: what comes now takes faults of its own."""
        self._count_faults()
        self._cores.look(children(os.getpid()))
        self._counting = False

    def _count_faults(self) -> None:
        if not self._counting:
            return
        self._faults.append((perf_counter(), page_faults()))

    def look(self) -> int:
        """Look once: now. Returns how many processes were seen below this one."""
        workers: list[int] = []
        with self._busy, suppress(OSError):
            workers = children(os.getpid())
            now = perf_counter()
            if len(self._looks) < MOST:
                self._looks.append((now, {pid: private(pid) for pid in workers}))
            if self._counting:
                self._cores.look(workers)
            latest = {pid: disk(pid) for pid in (os.getpid(), *workers)}
            self._disk = [*self._disk[:1], (now, latest)]
        return len(workers)

    def result(self) -> ResourceReport:
        """Memory of each worker over time (seconds, bytes), and bytes read from disks a second."""
        self.look()
        begin = self._looks[0][0] if self._looks else 0.0
        series: dict[int, list[tuple[float, int]]] = {}
        for when, found in self._looks:
            for pid, size in found.items():
                if size:
                    series.setdefault(pid, []).append((when - begin, size))
        return replace(
            ResourceReport(list(series.values()), *self._rates()),
            computed_by_workers=self._cores.of_workers,
            core_wait=self._cores.waited,
        )

    def fault_rate(self) -> float:
        """Page faults a second in the later half of the time, when the heap has grown."""
        if len(self._faults) < 2:
            return 0.0
        (begin, before), (end, after) = self._faults[len(self._faults) // 2 - 1], self._faults[-1]
        return (after - before) / max(1e-9, end - begin)

    def _rates(self) -> tuple[float, float]:
        """Bytes a second fetched from disks, and read by system calls whatever they came from."""
        if len(self._disk) < 2:
            return 0.0, 0.0
        (begin, before), (end, after) = self._disk
        spent = max(1e-9, end - begin)
        disk, read = (
            sum(max(0, now[at] - before.get(pid, (0, 0))[at]) for pid, now in after.items())
            for at in (0, 1)
        )
        return disk / spent, read / spent


class Cores:
    """Adds up what worker processes compute, and what the threads of this one wait for a core."""

    def __init__(self) -> None:
        self._spent: dict[int, float] = {}
        self._total = self._own = self._own_before = 0.0
        self._delays: dict[str, int] = {}
        self._delays_before: dict[str, int] = {}
        self._began = self._latest = 0.0

    def look(self, workers: Iterable[int]) -> None:
        """Look at them now; of a worker that is new all that it has computed counts."""
        self._latest, self._delays = perf_counter(), run_delays(os.getpid())
        now = {pid: computed(pid) for pid in workers}
        if self._began:
            self._total += sum(
                max(0.0, spent - self._spent.get(pid, 0.0)) for pid, spent in now.items()
            )
        else:
            self._began, self._delays_before = self._latest, self._delays
            self._own_before = process_time()
        self._own = process_time() - self._own_before
        self._spent |= now

    @property
    def of_workers(self) -> float:
        """What the workers computed, as a part of what they and this process did."""
        return self._total / max(1e-9, self._total + self._own)

    @property
    def waited(self) -> float:
        """Seconds that the thread which waits longest for a core does so, a second."""
        before = self._delays_before
        waited = [delay - before.get(thread, 0) for thread, delay in self._delays.items()]
        elapsed = max(1e-9, self._latest - self._began)
        return min(1.0, 1e-9 * max(waited, default=0) / elapsed)


def computed(pid: int) -> float:
    """Seconds that a process has computed, in its own code and in the kernel (proc_pid_stat(5))."""
    with suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def private(pid: int) -> int:
    """Bytes that a process has written to and shares with nobody; 0 where it cannot be told."""
    with suppress(OSError, ValueError), open(f"/proc/{pid}/smaps_rollup") as file:
        lines = [line for line in file if line.startswith("Private_Dirty:")]
        return sum(int(line.split()[1]) * 1024 for line in lines)
    return 0


def disk(pid: int) -> tuple[int, int]:
    """Bytes that a process fetched from disks, and that its system calls read."""
    with suppress(OSError, ValueError), open(f"/proc/{pid}/io") as file:
        values = dict(line.split(": ") for line in file.read().splitlines())
        return int(values["read_bytes"]), int(values["rchar"])
    return 0, 0


PAGES = 2048
MIN_FAULT_SHARE = 0.05
"""The part of a step from which page faults are worth a technique."""


def page_faults() -> int:
    """How many this process has had that needed no disk."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def faults_of(read: Callable[[], object], samples: int) -> dict[str, float]:
    """How often reading takes fresh memory from the kernel, and what part of its time that costs.

    `faults`: page faults a sample. The cost of one is measured here, on fresh memory.
    """
    before, begin = page_faults(), perf_counter()
    read()
    seconds = perf_counter() - begin
    faults = page_faults() - before
    return {"faults": faults / samples, "share": min(1.0, faults * fault_seconds() / seconds)}


def share_of_step(rate: float, of_samples: float, waiting: float) -> float:
    """The part of a step's time that page faults take, by what one costs here.

    Args:
        rate: page faults of this process, a second.
        of_samples: their part of the time that a sample takes, which may be read elsewhere.
        waiting: the part of a step that waits for samples.
    """
    return max(min(1.0, rate * fault_seconds()), of_samples * waiting)


def fault_seconds() -> float:
    """Seconds of CPU time that one page fault takes here; a page may be a huge one.

    Not of wall time: this thread may wait for a core meanwhile.
    """
    size = PAGES * mmap.PAGESIZE
    with mmap.mmap(-1, size) as memory:
        before, begin = page_faults(), thread_time()
        for at in range(0, size, mmap.PAGESIZE):
            memory[at] = 1
        first, count = thread_time() - begin, page_faults() - before
        begin = thread_time()
        for at in range(0, size, mmap.PAGESIZE):
            memory[at] = 1
        return max(0.0, first - (thread_time() - begin)) / max(1, count)
