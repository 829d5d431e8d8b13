"""The background load: what other programs take of the machine while a race runs.

Linux counts, for each thread, the time it ran and the time it was ready to run but waited for a
core (`/proc/PID/task/TID/schedstat`); and for the machine the time in which some task waited
(`/proc/pressure/cpu`) and the time that the hypervisor took (`steal` in `/proc/stat`). What a
machine does not count is None here.
"""

import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from hotlap.common.processes import cpu_seconds, descendants

PROC = Path("/proc")
BUSY = 0.1
"""Share of time waited for a core above which a machine counts as busy."""
BUSY_CORES = 0.25
"""Cores used by other programs from which a machine counts as busy, seen over `WINDOW_SECONDS`."""
BUSY_SHARE = 0.25
"""Share of the cores that other programs use from which shares of a step bound no gain."""
WINDOW_SECONDS = 3.0
SAMPLE_SECONDS = 0.5
POLL_SECONDS = 1.0


@dataclass(frozen=True)
class LoadSummary:
    """The load during a race; shares of its time, None where the machine does not count it.

    `at_start`: CPU pressure over the last 10 s before anything was launched. `load_average`: mean
    of the one-minute average. `pressure`: time in which some task waited for a core. `steal`: core
    time taken by the hypervisor. `waited`: time the raced threads waited for a core, of the time
    in which they could have run. `other_cores`: cores that other programs used on average, between
    the start of the race and its end.
    """

    at_start: float | None = None
    load_average: float | None = None
    pressure: float | None = None
    steal: float | None = None
    waited: float | None = None
    other_cores: float = 0.0

    @property
    def busy(self) -> bool:
        """Whether other programs took enough to show in the raced times."""
        return (self.waited or 0.0) > BUSY

    def __str__(self) -> str:
        found = [
            (self.load_average, "load average {:.1f}"),
            (self.pressure, "CPU pressure {:.0%}"),
            (self.waited, "the raced threads waited for a core {:.0%} of the time"),
            (self.steal or None, "{:.0%} of core time stolen by the hypervisor"),
        ]
        return ", ".join(text.format(value) for value, text in found if value is not None)


class OtherPrograms:
    """The cores that other programs use: what the machine was busy less what we and ours were."""

    def __init__(self) -> None:
        self._begin = self._busy_own()

    def cores(self) -> float:
        """Cores used on average since this was made."""
        now = self._busy_own()
        seconds, busy, own = (
            after - before for after, before in zip(now, self._begin, strict=True)
        )
        return max(0.0, busy - own) / max(seconds, 1e-3)

    def _busy_own(self) -> tuple[float, float, float]:
        """The time, the machine's busy CPU seconds, and those of this process and all below it."""
        own = sum(os.times()[:4])
        own += sum(map(cpu_seconds, descendants(os.getpid())))
        return time.monotonic(), busy_seconds(), own


def shared(other_cores: float, cores: int = 0) -> bool:
    """Whether other programs used so many of the cores that shares of a step bound no gain.

    `cores`: those of the machine; 0: of this one.
    """
    return other_cores >= BUSY_SHARE * (cores or os.cpu_count() or 1)


def busy_seconds() -> float:
    """CPU seconds that the machine's cores were busy since it started, stolen ones included."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - times.iowait - times.guest - times.guest_nice)


class LoadMeter:
    """Sums up the load over the blocks of a race. Create it before anything is launched."""

    def __init__(self, proc: Path = PROC) -> None:
        self._proc = proc
        self._at_start = pressure_now(proc)
        self._others = OtherPrograms()
        self._averages: list[float] = []
        self._sums = [0.0] * 6
        self._before = self._counters()

    def begin(self) -> None:
        """A block begins."""
        self._before = self._counters()

    def end(self, ran: float, waited: float) -> None:
        """The block is over; its threads ran and waited for so many seconds."""
        spent = [now - then for now, then in zip(self._counters(), self._before, strict=True)]
        self._sums = [s + new for s, new in zip(self._sums, [*spent, ran, waited], strict=True)]
        self._averages.append(os.getloadavg()[0])

    def summary(self) -> LoadSummary:
        """The load of all blocks so far."""
        seconds, pressure, cores, stolen, ran, waited = self._sums
        return LoadSummary(
            at_start=self._at_start,
            load_average=math.fsum(self._averages) / max(len(self._averages), 1),
            pressure=_share(pressure, seconds),
            steal=_share(stolen, cores),
            waited=_share(waited, ran + waited),
            other_cores=self._others.cores(),
        )

    def _counters(self) -> list[float]:
        """Seconds on the clock, under pressure, of all cores, and stolen; nan: not counted."""
        pressure, cores = math.nan, [math.nan] * 8
        with suppress(OSError, ValueError, IndexError):
            pressure = float(_some(self._proc).rpartition("total=")[2]) / 1e6
        with suppress(OSError, ValueError, IndexError):
            line = (self._proc / "stat").read_text().split("\n", 1)[0]
            cores = [float(word) for word in line.split()[1:9]]
        return [time.monotonic(), pressure, sum(cores), cores[7]]


def _some(proc: Path) -> str:
    """The line of /proc/pressure/cpu on times in which some task waited."""
    return (proc / "pressure" / "cpu").read_text().split("\n", 1)[0]


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 and math.isfinite(part) else None


def pressure_now(proc: Path = PROC) -> float | None:
    """Share of the last 10 s in which some task waited for a core; None: not counted here."""
    with suppress(OSError, ValueError, IndexError):
        return float(_some(proc).split("avg10=")[1].split()[0]) / 100
    return None


def waits_are_counted(proc: Path = PROC) -> bool:
    """Whether the kernel counts how long a thread waits for a core."""
    return (proc / "self" / "schedstat").exists()


def busy_now(proc: Path = PROC) -> bool:
    """Whether other programs want the cores now, where no trial of ours runs.

    By pressure, or by the load average where that is unknown. Both look back, at what may have been
    our own last command, so a look at the cores confirms it.
    """
    pressure = pressure_now(proc)
    if pressure is None:
        wanted = os.getloadavg()[0] > 0.5 * (os.cpu_count() or 1)
    else:
        wanted = pressure > BUSY
    return wanted and cores_in_use() > BUSY_CORES


def cores_in_use() -> float:
    """The cores that all programs use, over `SAMPLE_SECONDS`."""
    return psutil.cpu_percent(interval=SAMPLE_SECONDS) / 100 * (os.cpu_count() or 1)


class BusyWatch:
    """Whether other programs want the cores, told from what our own trials do to the machine.

    Before anything of ours runs, by pressure; then by the CPU time that others used since the last
    look, for trials that start side by side put pressure on the cores themselves.
    """

    def __init__(self) -> None:
        self._busy = busy_now()
        self._others, self._since = OtherPrograms(), time.monotonic()

    def now(self) -> bool:
        """Whether they do, or did before: a machine that was busy may be so again."""
        if not self._busy and time.monotonic() - self._since > WINDOW_SECONDS:
            self._busy = self._others.cores() > BUSY_CORES
            self._others, self._since = OtherPrograms(), time.monotonic()
        return self._busy


def load_now(proc: Path = PROC) -> str:
    """The load at this moment, for a line that follows a race."""
    return str(LoadSummary(load_average=os.getloadavg()[0], pressure=pressure_now(proc)))


def wait_until_calm(
    seconds: float, report: Callable[[str], None] = lambda _: None, proc: Path = PROC
) -> bool:
    """Wait at most so long for the cores to become free; False when they did not."""
    end = time.monotonic() + seconds
    while busy_now(proc):
        left = end - time.monotonic()
        if left <= 0:
            return False
        report(f"waiting for the background load to fall, {left:.0f} s more at most")
        time.sleep(min(POLL_SECONDS, left))
    return True
