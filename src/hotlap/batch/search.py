"""The search: doubling, multiples of 8, and the best ones once more.

Each size is a fresh trial, raced in lockstep against the script's own size, so that all sizes are
measured in the same weather. Running out of memory ends a trial, not the search. What is answered
has run more steps alone, with head-room left.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from hotlap.batch.contender import Plan
from hotlap.batch.look import look
from hotlap.batch.result import Found, Row, Script
from hotlap.batch.track import EQUAL, Track
from hotlap.core.errors import TrialFailedError

PAIRS = 4
MORE_PAIRS = 10
FINALISTS = 3
CLEARLY_SLOWER = 0.9
EXPLORING = 0.7  # of the time, at most, goes into trying sizes; the rest compares the best ones
CONFIRM_STEPS = 20
FIRST = 8


class Watcher(Protocol):
    """Sees the search as it goes on."""

    def stage(self, text: str) -> None:
        """A new stage began."""

    def row(self, row: Row) -> None:
        """One size is known, or known better."""


@dataclass(frozen=True)
class Orders:
    """What to search: largest size (0: no bound), seconds in all."""

    plan: Plan
    most: int = 0
    seconds: float = 300.0
    confirm: int = CONFIRM_STEPS


class Search:
    """One search; Ctrl-C ends it, not its result."""

    def __init__(self, orders: Orders, watcher: Watcher) -> None:
        self.orders = orders
        self.watcher = watcher
        self.plan = orders.plan
        self.found = Found(Script(0))
        self._track = Track(self.plan)
        self._begin = time.monotonic()

    def run(self) -> Found:
        """Look at the script, search, confirm.

        Raises:
            HotlapError: the script cannot be run, or not at any batch size.
        """
        begin = time.monotonic()
        self.watcher.stage("looking at the script")
        script = look(self.plan)
        self._track = Track(replace(self.plan, loaders=script.loaders))
        self.found = found = Found(script)
        try:
            self._search(script)
        except KeyboardInterrupt:
            found.interrupted = True
            found.fastest, found.largest = self._choice().size, self._largest()
        finally:
            self._track.close()
            found.seconds = time.monotonic() - begin
        return found

    def _search(self, script: Script) -> None:
        self._upward(script)
        if not self._timed():
            why = next(iter(self.found.rows.values())).why
            raise TrialFailedError(f"no batch size fits, not even 1: {why}")
        self._downward()
        self._between()
        self._finals()
        self._confirm()

    # trying one size

    def _try(self, size: int) -> bool:
        """Race one size against the reference; whether it fits."""
        self.watcher.stage(f"batch {size}")
        return self._keep(self._track.raced(size, PAIRS))

    def _fits(self, size: int) -> bool:
        """Whether a few steps run at this size, untimed."""
        self.watcher.stage(f"does batch {size} fit?")
        return self._keep(self._track.held(size, 3))

    def _keep(self, row: Row) -> bool:
        self.found.rows[row.size] = row
        self.watcher.row(row)
        return row.fits

    # which sizes

    def _most(self) -> tuple[int, str]:
        """The largest size to try, and what bounds it."""
        bounds = [(self.orders.most, "--max"), (self.found.script.samples, "the data set's size")]
        known = [(size, why) for size, why in bounds if size]
        return min(known, default=(1 << 30, ""))

    def _upward(self, script: Script) -> None:
        """Powers of two from the script's own size until one does not fit; then multiples of 8."""
        most, bound = self._most()
        size = first = min(script.batch or FIRST, most)
        while not self._try(size):  # the script's own size does not fit
            if size == 1:
                return
            size = max(1, size // 2)
        good, bad = size, 0 if size == first else first
        while not bad and good < most and self._time():
            size = min(_power_above(good), most)
            if self._try(size):
                good = size
            else:
                bad = size
        self.found.bound = self._narrow(good, bad) if bad else (bound or "the time")
        if good < most and not bad:
            self.found.bound = "the time: --budget gives it more"

    def _narrow(self, good: int, bad: int) -> str:
        """Find the largest multiple of 8 that fits between one that does and one that does not."""
        while bad - good > max(8, good // 32) and self._time():
            middle = (good + bad) // 2 // 8 * 8
            if middle <= good:
                break
            if self._fits(middle):
                good = middle
            else:
                bad = middle
        return f"memory: {self.found.rows[bad].why}"

    def _downward(self) -> None:
        """Smaller sizes, as long as the smallest is the best."""
        while self._time():
            smallest = min(row.size for row in self._timed())
            if smallest == 1 or self._best().size != smallest:
                return
            self._try(_power_below(smallest))

    def _between(self) -> None:
        """The multiples of 8 halfway to the best one's neighbours."""
        best = self._best().size
        for size in (best * 3 // 4 // 8 * 8, best * 3 // 2 // 8 * 8):
            fits = size and size <= min(self._largest(), self._most()[0])
            if fits and not self._rated(size) and self._time():
                self._try(size)

    def _finals(self) -> None:
        """Race the best ones on, until little is left to chance."""
        rows = sorted(self._timed(), key=lambda row: -row.ratio)
        for row in rows[:FINALISTS]:
            close = row.ratio > CLEARLY_SLOWER * rows[0].ratio
            if close and self._track.paired(row.size) and self._time(1.0):
                self.watcher.stage(f"batch {row.size} once more")
                again = self._track.raced(row.size, MORE_PAIRS)
                if again.fits:  # where the two no longer fit together, the first word stands
                    self._keep(again)

    def _confirm(self) -> None:
        """Run the answers alone for more steps; step down from what does not hold."""
        self.found.largest = self._confirmed(self._largest)
        self.found.fastest = self._confirmed(lambda: self._choice().size)

    def _confirmed(self, answer: Callable[[], int]) -> int:
        while True:
            size = answer()
            if not size or size in self.found.confirmed:
                return size
            steps = self.orders.confirm
            self.watcher.stage(f"batch {size}: {steps} more steps, with head-room")
            row = self._track.held(size, steps, warm=True)
            if row.fits:
                self.found.confirmed = (*self.found.confirmed, size)
                return size
            self._keep(row)
            self._step_down(size)

    def _step_down(self, size: int) -> None:
        """Put a size a little below one that did not hold to the test, if none is known there."""
        lower = (size - max(8, size // 20)) // 8 * 8
        if lower > self._largest():
            self._fits(lower)

    # what is known

    def _time(self, share: float = EXPLORING) -> bool:
        return time.monotonic() < self._begin + share * self.orders.seconds

    def _timed(self) -> list[Row]:
        return [row for row in self.found.rows.values() if row.fits and row.rate]

    def _rated(self, size: int) -> bool:
        row = self.found.rows.get(size)
        return row is not None and (bool(row.rate) or not row.fits)

    def _best(self) -> Row:
        return max(self._timed(), key=lambda row: row.ratio)

    def _choice(self) -> Row:
        """The smallest of those that are as fast as the fastest."""
        rows = self._timed()
        if not rows:
            return Row(0, fits=False)
        best = max(row.ratio for row in rows)
        return min((r for r in rows if r.ratio >= (1 - EQUAL) * best), key=lambda row: row.size)

    def _largest(self) -> int:
        return max((row.size for row in self.found.rows.values() if row.fits), default=0)


def _power_above(size: int) -> int:
    return 1 << size.bit_length()


def _power_below(size: int) -> int:
    return 1 << (size - 1).bit_length() - 1
