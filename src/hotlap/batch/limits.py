"""How much memory a trial may take, and the thread that ends it beyond that or its deadline."""

import contextlib
import math
import os
import resource
import signal
import threading
import time
from dataclasses import dataclass

import psutil

from hotlap.core.machine import available_memory
from hotlap.trial.trial import Trial

SAMPLE_SECONDS = 0.05
SAMPLES_PER_LISTING = 10  # samples of memory for one listing of the trial's processes


@dataclass(frozen=True)
class Limits:
    """Bytes: of resident memory for the whole trial, and of address space for one process.

    0 stands for no limit. `headroom` is the share that must stay free. `free` is what the machine,
    or the cgroup around us, had left before the search began.
    """

    memory: int = 0
    space: int = 0
    free: int = 0
    headroom: float = 0.05

    @staticmethod
    def here(memory: int = 0, headroom: float = 0.05) -> "Limits":
        """The limits that hold for this process and its children."""
        space, _ = resource.getrlimit(resource.RLIMIT_AS)
        return Limits(
            memory, 0 if space == resource.RLIM_INFINITY else space, available_memory(), headroom
        )

    def exceeded(self, resident: int, space: int, free: int) -> str:
        """Which limit these bytes in use and left exceed, in words; empty if none."""
        share = 1 - self.headroom
        if self.memory and resident > share * self.memory:
            return f"it takes at least {gib(resident)} of the {gib(self.memory)} allowed"
        if self.space and space > share * self.space:
            allowed = f"{gib(self.space)} of address space (ulimit -v)"
            return f"it takes at least {gib(space)} of the {allowed}"
        if self.free and free < self.headroom * self.free:
            return f"only {gib(free)} of the machine's memory would be left"
        return ""


def gib(size: float) -> str:
    """Bytes for reading."""
    return f"{size / 2**30:.2f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"


class MemoryWatch:
    """Samples a trial's memory; ends the trial beyond its limits, or at its deadline.

    `exceeded` says which limit, `expired` whether it was the deadline (of `time.monotonic`).
    """

    def __init__(self, trial: Trial, limits: Limits, deadline: float = math.inf) -> None:
        self.exceeded = ""
        self.expired = False
        self._trial = trial
        self._limits = limits
        self._deadline = deadline
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop sampling."""
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        pids: list[int] = []
        samples = 0
        while not self._over.wait(SAMPLE_SECONDS):
            if samples % SAMPLES_PER_LISTING == 0:
                pids = self._trial.pids()
            samples += 1
            if time.monotonic() > self._deadline:
                self.expired = True
                self._kill()
            else:
                self._sample(pids)

    def _sample(self, pids: list[int]) -> None:
        resident = space = 0
        for pid in pids:
            with contextlib.suppress(psutil.Error):
                used = psutil.Process(pid).memory_info()
                resident += used.rss - used.shared
                space = max(space, used.vms)
        exceeded = self._limits.exceeded(resident, space, available_memory())
        if exceeded and not self.exceeded:
            self.exceeded = exceeded
            self._kill()

    def _kill(self) -> None:
        for pid in self._trial.pids():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
