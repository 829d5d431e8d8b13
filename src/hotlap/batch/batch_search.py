"""The search: doubling, multiples of 8, and the best ones once more, within a budget.

Each size is a fresh trial, raced in lockstep against the script's own size, so that all sizes see
the same background load. Running out of memory ends a trial, not the search. The sizes that are
answered have run more steps alone, with headroom left.

Nothing is begun that is not expected to end in time, by the start-up and step times seen so far;
what runs on nevertheless is ended at the budget.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from hotlap.batch.baseline import observe_script
from hotlap.batch.batch_result import OUT_OF_BUDGET, BatchFacts, BatchResult, SizeResult
from hotlap.batch.contestant import BLOCK_SECONDS, OutOfTime, SizedCommand
from hotlap.batch.lockstep import EQUAL_WITHIN, Lockstep
from hotlap.core.errors import TrialFailedError
from hotlap.trial.load import BusyWatch, OtherPrograms

PAIRS = 5  # that give an interval of use
FEWEST_PAIRS = 3  # where steps are so long that there is no time for more
MORE_PAIRS = 10
CHECK_STEPS = 3
FINALISTS = 3
CLEARLY_SLOWER = 0.9
EXPLORING_SHARE = 0.7  # of the budget, at most, goes into trying sizes
FRUITLESS_DOUBLINGS = 2  # after so many without a gain larger sizes are checked, not timed
CONFIRM_STEPS = 20
FIRST_SIZE = 8


class Progress(Protocol):
    """Sees the search as it goes on."""

    def stage(self, text: str) -> None:
        """A new stage began."""

    def row(self, row: SizeResult) -> None:
        """One size is known, or known better."""


@dataclass(frozen=True)
class BatchSearchConfig:
    """What to search: largest size (0: no bound), seconds in all, steps that confirm an answer."""

    sized: SizedCommand
    most: int = 0
    seconds: float = 300.0
    confirm: int = CONFIRM_STEPS


class Search:
    """One search; Ctrl-C ends it, not its result."""

    def __init__(self, config: BatchSearchConfig, progress: Progress) -> None:
        self.config = config
        self.progress = progress
        self.result = BatchResult(BatchFacts(0))
        self._begin = time.monotonic()
        self._deadline = self._begin + config.seconds
        self._sized = replace(config.sized, deadline=self._deadline)
        self._others, self._busy = OtherPrograms(), BusyWatch()
        self._lockstep = Lockstep(self._sized, self._busy.now)

    def run(self) -> BatchResult:
        """Observe the script, search, confirm.

        Raises:
            HotlapError: the script cannot be run, or not at any batch size, or the budget was over
                before the first size was timed.
        """
        self.progress.stage("observing the script")
        try:
            script = observe_script(self._sized)
            sized = replace(self._sized, loaders=script.loaders)
            self._lockstep = Lockstep(sized, self._busy.now)
            self.result = BatchResult(script)
            self._search(script)
        except KeyboardInterrupt:
            self.result.interrupted = True
        except OutOfTime:
            if not self._timed():
                raise TrialFailedError(self._nothing_timed(), "raise --budget") from None
            self.result.bound = self.result.bound or OUT_OF_BUDGET
        finally:
            self._lockstep.close()
            self.result.seconds = time.monotonic() - self._begin
            self.result.load, self.result.asleep = self._others.cores(), self._lockstep.asleep
        self._conclude()
        return self.result

    def _nothing_timed(self) -> str:
        over = f"the budget of {self.config.seconds:.0f} s was over before any batch size was timed"
        smallest = min(self.result.rows.values(), key=lambda row: row.size, default=None)
        if smallest is None:
            return over
        return f"{over}; batch {smallest.size} does not fit: {smallest.why}"

    def _search(self, script: BatchFacts) -> None:
        self._upward(script)
        if not self._timed():
            why = next(iter(self.result.rows.values())).why
            raise TrialFailedError(f"no batch size fits, not even 1: {why}")
        self._downward()
        self._between()
        self._finals()
        self._confirm()

    def _conclude(self) -> None:
        """Name the answers by what is known now; all rates follow from the reference's last one."""
        result, rate = self.result, self._lockstep.reference_rate
        for size, row in result.rows.items():
            if row.rate and rate and not row.alone:
                result.rows[size] = replace(row, rate=rate * row.ratio)
        result.largest = self._largest()
        choice = self._choice()
        result.fastest = choice.size if self._compared() else 0
        if choice.ratio == 1.0 and (rows := self._timed()):
            best = max(rows, key=lambda row: row.ratio)
            maybe = best.ratio > 1 + EQUAL_WITHIN and best.high > 1 + EQUAL_WITHIN
            result.promising = best.size if maybe else 0

    # trying one size

    def _try(self, size: int, pairs: int = PAIRS) -> bool:
        """Race one size against the reference; whether it fits."""
        self.progress.stage(f"batch {size}")
        return self._keep(self._lockstep.raced(size, pairs))

    def _fits(self, size: int) -> bool:
        """Whether a few steps run at this size, untimed."""
        self.progress.stage(f"does batch {size} fit?")
        return self._keep(self._lockstep.held(size, CHECK_STEPS))

    def _keep(self, row: SizeResult) -> bool:
        self.result.rows[row.size] = row
        self.progress.row(row)
        return row.fits

    # which sizes

    def _most(self) -> tuple[int, str]:
        """The largest size to try, and what bounds it."""
        bounds = [(self.config.most, "--max"), (self.result.script.samples, "the data set's size")]
        known = [(size, why) for size, why in bounds if size]
        return min(known, default=(1 << 30, ""))

    def _upward(self, script: BatchFacts) -> None:
        """Powers of two from the script's own size until one does not fit; then multiples of 8.

        They are raced for as long as that gains speed and time allows; then only checked.
        """
        most, bound = self._most()
        size = first = min(script.batch or FIRST_SIZE, most)
        while not self._try(size):  # the script's own size does not fit
            if size == 1:
                return
            size = max(1, size // 2)
        good, bad = size, 0 if size == first else first
        while not bad and good < most:
            size = min(_power_above(good), most)
            if self._gaining() and (pairs := self._pairs_in_time(size)):
                fits = self._try(size, pairs)
            elif self._time_for_check(size):
                fits = self._fits(size)
            else:
                break
            good, bad = (size, 0) if fits else (good, size)
        if bad:
            self._narrow(good, bad)
        else:
            self.result.bound = bound if good >= most else OUT_OF_BUDGET

    def _gaining(self) -> bool:
        """Whether one of the last doublings was faster than all sizes below it."""
        rows = sorted(self._timed(), key=lambda row: row.size)
        recent, before = rows[-FRUITLESS_DOUBLINGS:], rows[:-FRUITLESS_DOUBLINGS]
        best = max((row.ratio for row in before), default=0.0)
        return any(row.ratio > (1 + EQUAL_WITHIN) * best for row in recent)

    def _narrow(self, good: int, bad: int) -> None:
        """Find the largest multiple of 8 that fits between one that does and one that does not."""
        while bad - good > max(8, good // 32):
            middle = (good + bad) // 2 // 8 * 8
            if middle <= good or not self._time_for_check(middle):
                break
            if self._fits(middle):
                good = middle
            else:
                bad = middle
        self.result.bound = f"memory: at {bad}, {self.result.rows[bad].why}"

    def _downward(self) -> None:
        """Smaller sizes, as long as the smallest is the best."""
        while True:
            smallest = min(row.size for row in self._timed())
            if smallest == 1 or self._best().size != smallest:
                return
            below = _power_below(smallest)
            if not (pairs := self._pairs_in_time(below)):
                return
            self._try(below, pairs)

    def _between(self) -> None:
        """The multiples of 8 halfway to the best one's neighbours."""
        best = self._best().size
        for size in (best * 3 // 4 // 8 * 8, best * 3 // 2 // 8 * 8):
            fits = size and size <= min(self._largest(), self._most()[0])
            if fits and not self._rated(size) and (pairs := self._pairs_in_time(size)):
                self._try(size, pairs)

    def _finals(self) -> None:
        """Launch the best ones again and race them on, where their order is not yet clear."""
        rows = sorted(self._timed(), key=lambda row: -row.ratio)
        for row in rows[:FINALISTS]:
            close = row.ratio > CLEARLY_SLOWER * rows[0].ratio
            self._lockstep.close()  # a final is between fresh processes of both
            cost = self._race_seconds(row.size, MORE_PAIRS)
            in_time = cost + self._confirming() <= self._left()
            if close and self._lockstep.paired(row.size) and in_time:
                self.progress.stage(f"batch {row.size} once more")
                again = self._lockstep.raced(row.size, MORE_PAIRS)
                if again.fits and not again.alone:  # else the two no longer fit together
                    self._keep(again)

    def _confirm(self) -> None:
        """Run the answers alone for more steps; step down from what does not hold."""
        self._confirmed(lambda: self._choice().size)
        self._confirmed(self._largest)
        self._confirmed(lambda: self._choice().size)

    def _confirmed(self, answer: Callable[[], int]) -> None:
        while (size := answer()) and size not in self.result.confirmed:
            if self._left() < self._confirm_seconds(size):
                return
            steps = self.config.confirm
            self.progress.stage(f"batch {size}: {steps} more steps, with headroom")
            row = self._lockstep.held(size, steps, warm=True)
            if row.fits:
                self.result.confirmed = (*self.result.confirmed, size)
                return
            self._keep(row)
            self.result.bound = f"memory: at {size}, {row.why}"
            self._step_down(size)

    def _step_down(self, size: int) -> None:
        """Check a size a little below one that did not hold, if none is known there."""
        lower = (size - max(8, size // 20)) // 8 * 8
        if lower > self._largest() and self._time_for_check(lower):
            self._fits(lower)

    # time

    def _left(self) -> float:
        return self._deadline - time.monotonic()

    def _step_seconds(self, size: int) -> float:
        """About how long a step of a size takes, from the nearest one that was run."""
        known = [row for row in self.result.rows.values() if row.step]
        if not known:
            return 0.0
        near = min(known, key=lambda row: abs(row.size - size))
        return near.step * max(1.0, size / near.size)

    def _race_seconds(self, size: int, pairs: int) -> float:
        own = max(BLOCK_SECONDS, self._step_seconds(self.result.reference))
        theirs = max(BLOCK_SECONDS, self._step_seconds(size))
        starts = 1 if self._lockstep.reference_live else 2
        return starts * self._lockstep.start_up + pairs * (own + theirs)

    def _confirm_seconds(self, size: int) -> float:
        return self._lockstep.start_up + self.config.confirm * self._step_seconds(size)

    def _check_seconds(self, size: int) -> float:
        return self._lockstep.start_up + CHECK_STEPS * self._step_seconds(size)

    def _confirming(self, largest: int = 0) -> float:
        """The seconds that confirm the answers, if a size `largest` comes to be one."""
        answers = self._choice().size, max(largest, self._largest())
        return sum(map(self._confirm_seconds, answers))

    def _affordable(self, seconds: float, largest: int) -> bool:
        """Whether so many seconds may go into trying a size, with those left that confirm it."""
        return self._early() and seconds + self._confirming(largest) <= self._left()

    def _pairs_in_time(self, size: int) -> int:
        """How many pairs there is time for in a race of this size; 0: for none.

        Until two sizes have been compared, all of the time may go into that: where steps are long,
        confirming the answers would take more than there is.
        """
        for pairs in (PAIRS, FEWEST_PAIRS):
            seconds = self._race_seconds(size, pairs)
            if self._affordable(seconds, size):
                return pairs
        return FEWEST_PAIRS if not self._compared() and seconds <= self._left() else 0

    def _time_for_check(self, size: int) -> bool:
        """One larger size is tried even where confirming it would take the time that is left."""
        larger_known = any(row.size > self.result.reference for row in self.result.rows.values())
        if not larger_known:
            return self._check_seconds(size) <= self._left()
        return self._affordable(self._check_seconds(size), size)

    def _early(self) -> bool:
        """Whether new sizes may still be tried: the rest of the time compares the best ones."""
        return self._left() > (1 - EXPLORING_SHARE) * self.config.seconds

    # what is known

    def _compared(self) -> bool:
        """Whether more than one size was timed, or only one can be."""
        only = [row.size for row in self.result.rows.values() if row.fits] == [1]
        return len(self._timed()) > 1 or (only and self.result.bound != OUT_OF_BUDGET)

    def _timed(self) -> list[SizeResult]:
        return [row for row in self.result.rows.values() if row.fits and row.rate]

    def _rated(self, size: int) -> bool:
        row = self.result.rows.get(size)
        return row is not None and (bool(row.rate) or not row.fits)

    def _best(self) -> SizeResult:
        return max(self._timed(), key=lambda row: row.ratio)

    def _choice(self) -> SizeResult:
        """The smallest of those as fast as the fastest that is shown to beat the reference."""
        rows = self._timed()
        if not rows:
            return SizeResult(0, fits=False)
        shown = [row for row in rows if row.faster or row.low == row.high == 1.0] or rows
        best = max(row.ratio for row in shown)
        equal = (row for row in shown if row.ratio >= (1 - EQUAL_WITHIN) * best)
        return min(equal, key=lambda row: row.size)

    def _largest(self) -> int:
        return max((row.size for row in self.result.rows.values() if row.fits), default=0)


def _power_above(size: int) -> int:
    return 1 << size.bit_length()


def _power_below(size: int) -> int:
    return 1 << (size - 1).bit_length() - 1
