"""How much memory a trial may take, and the watch that ends it before the machine runs out."""

import contextlib
import resource
import threading
from dataclasses import dataclass

import psutil

from hotlap.core.machine import available_memory
from hotlap.trial.trial import Trial

EVERY = 0.05
LISTED = 10  # looks at the memory for one look at the list of processes


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

    def broken(self, resident: int, space: int, free: int) -> str:
        """What is exceeded, if anything, by these bytes in use and left; empty if nothing is."""
        share = 1 - self.headroom
        if self.memory and resident > share * self.memory:
            return f"it takes {gib(resident)} of the {gib(self.memory)} allowed"
        if self.space and space > share * self.space:
            return f"it takes {gib(space)} of the {gib(self.space)} of address space (ulimit -v)"
        if self.free and free < self.headroom * self.free:
            return f"only {gib(free)} of the machine's memory would be left"
        return ""


def gib(size: float) -> str:
    """Bytes for reading."""
    return f"{size / 2**30:.2f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"


class Watch:
    """Looks at a trial's memory many times a second; ends the trial that goes beyond its limits."""

    def __init__(self, trial: Trial, limits: Limits) -> None:
        self.broken = ""
        self.peak = 0
        self._trial = trial
        self._limits = limits
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop looking."""
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        processes: list[psutil.Process] = []
        looks = 0
        while not self._over.wait(EVERY):
            if looks % LISTED == 0:
                processes = self._trial.processes()
            looks += 1
            self._judge(processes)

    def _judge(self, processes: list[psutil.Process]) -> None:
        resident = space = 0
        for process in processes:
            with contextlib.suppress(psutil.Error):
                used = process.memory_info()
                resident += used.rss - used.shared
                space = max(space, used.vms)
        self.peak = max(self.peak, resident)
        broken = self._limits.broken(resident, space, available_memory())
        if broken and not self.broken:
            self.broken = broken
            for process in self._trial.processes():
                with contextlib.suppress(psutil.Error):
                    process.kill()
