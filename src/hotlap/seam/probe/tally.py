"""The timed steps, summed and kept thinly for the quantiles.

Of a program with short steps only some are looked at in detail: all that started a loader, held an
evaluation or saved a file, the special ones, and of the others a few; the rest have been clocked.
Those that took `LONG` times the usual are kept apart from the ordinary ones, and of each kind the
steps in detail stand for all: their phases are scaled to the time these took together (a ratio
estimate over strata), so that the mean step is exact and a rare evaluation weighs what it should.

Steps are folded into phases a batch at a time: that is cheaper than one by one, and the training
runs on in between with its caches warm.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from statistics import median

from hotlap.core.facts import STEP_PHASES
from hotlap.core.protocol import PhaseTimes
from hotlap.seam.probe.phases import Marks, fold

MOST_ROWS = 4096
PARTS = 8
"""Parts of the course of a training whose median steps are compared."""
FEWEST_OF_PART = 5
"""Steps without which nothing is said of a part."""
GROWN = 1.3
"""How many times the first part's steps the last part's take, from which steps have grown."""
HELD, MOST_AT_ONCE = 0.95, 0.6
"""Of a part's steps at least so much in the next one, as times vary; and what may come from one to
the next of all that steps have grown by: another program that starts comes at once."""
BATCH = 64
LONG_STEP = 1024
LONG = 2.0
NANO = 1e-9

Row = Sequence[float]


class Stratum:
    """Steps of one kind: the nanoseconds of each phase, and how many steps had any of it.

    `clocked` and `clocked_time` (nanoseconds) are those without detail.
    """

    def __init__(self) -> None:
        self.steps = 0
        self.clocked = 0
        self.clocked_time = 0
        self.sums = [0.0] * len(STEP_PHASES)
        self.seen = [0] * len(STEP_PHASES)
        self.rows: list[Row] = []
        self._stride = 1

    def add(self, new: list[Row]) -> None:
        """Add folded steps; memory stays bounded however many."""
        self.steps += len(new)
        for index, column in enumerate(zip(*new, strict=True)):
            self.sums[index] += sum(column)
            self.seen[index] += sum(map(bool, column))
        self.rows += new[:: self._stride]
        if len(self.rows) >= MOST_ROWS:
            self.rows = self.rows[::2]
            self._stride *= 2

    def clock(self, steps: int, time: int) -> None:
        """Add steps without detail, which took so many nanoseconds together."""
        self.clocked += steps
        self.clocked_time += time

    def take(self, other: "Stratum") -> None:
        """Count another's clocked steps, because it has none in detail, as of this kind."""
        self.clock(other.clocked, other.clocked_time)
        other.clocked = other.clocked_time = 0

    @property
    def of_time(self) -> float:
        """What the time of the steps in detail is multiplied by to stand for all."""
        return 1.0 + self.clocked_time / sum(self.sums) if self.steps else 1.0

    @property
    def of_steps(self) -> float:
        """The same for their number."""
        return 1.0 + self.clocked / self.steps if self.steps else 1.0

    @property
    def shorter(self) -> float:
        """The mean of all its steps over that of those in detail, which take longer for it."""
        return self.of_time / self.of_steps

    @property
    def weight(self) -> float:
        """Steps that one of the rows stands for."""
        return (self.steps + self.clocked) / len(self.rows) if self.rows else 0.0


class Tally:
    """Adds up the nanoseconds of each phase.

    `usual` is the median step of the latest batch, 0 before there is one.
    """

    def __init__(self) -> None:
        self.detailed = 0
        self.clocked = 0
        self.usual = 0.0
        self._limit = float("inf")
        self._ordinary = Stratum()
        self._long = Stratum()
        self._special = Stratum()
        self._marks: list[tuple[Marks, bool]] = []
        self._course: list[Row] = []
        self._thinned = 1

    @property
    def steps(self) -> int:
        """All steps, in detail or not."""
        return self.detailed + self.clocked

    def clock(self, lasted: list[int]) -> None:
        """Count steps without detail that took so many nanoseconds each."""
        self.clocked += len(lasted)
        long = [each for each in lasted if each >= self._limit]
        self._long.clock(len(long), sum(long))
        self._ordinary.clock(len(lasted) - len(long), sum(lasted) - sum(long))

    def add(self, marks: Marks, special: bool = False) -> None:
        """Count one step in detail; a `special` one stands for itself alone."""
        self.detailed += 1
        self._marks.append((marks, special))
        if len(self._marks) >= BATCH or len(marks[0]) >= LONG_STEP:
            self._digest()

    def _digest(self) -> None:
        if not self._marks:
            return
        rows = [fold(*marks) for marks, _ in self._marks]
        lasted = [sum(row) for row in rows]
        limit = LONG * (self.usual or median(lasted))
        kinds = [
            self._special if told else self._long if time >= limit else self._ordinary
            for (_, told), time in zip(self._marks, lasted, strict=True)
        ]
        for kind in self._kinds:
            kind.add([row for row, its in zip(rows, kinds, strict=True) if its is kind])
        self._course += rows[:: self._thinned]
        if len(self._course) >= MOST_ROWS:
            self._course = self._course[::2]
            self._thinned *= 2
        if len(rows) >= BATCH:
            self.usual = median(lasted)
            self._limit = LONG * self.usual
        self._marks = []

    @property
    def _kinds(self) -> tuple[Stratum, Stratum, Stratum]:
        return self._ordinary, self._long, self._special

    def _settle(self) -> None:
        """Fold what is left; see to it that clocked steps have some in detail to stand for them."""
        self._digest()
        if not self._long.steps:
            self._ordinary.take(self._long)
        if not self._ordinary.steps:
            self._long.take(self._ordinary)

    def phases(self) -> dict[str, PhaseTimes]:
        """Mean, quantiles and number of steps for each name that took any time, in seconds."""
        self._settle()
        return {
            name: self._phase(at)
            for at, name in enumerate(STEP_PHASES)
            if any(kind.seen[at] for kind in self._kinds)
        }

    def _phase(self, at: int) -> PhaseTimes:
        mean = self._mean(at)
        took = [(row[at], kind.weight) for kind in self._kinds for row in kind.rows if row[at] > 0]
        return PhaseTimes(
            mean,
            steps=round(sum(kind.seen[at] * kind.of_steps for kind in self._kinds)),
            usual=mean * _outliers_out(took),
            **self._quantiles(partial(_entry, at)),
        )

    def means(self) -> dict[str, float]:
        """Mean seconds for each name that took any time; together they are the mean step."""
        self._settle()
        return {
            name: self._mean(at)
            for at, name in enumerate(STEP_PHASES)
            if any(kind.seen[at] for kind in self._kinds)
        }

    def errors(self) -> dict[str, float]:
        """The standard errors of `means`, where every step differs from the next by chance."""
        self._settle()
        return {name: self._error(at) for at, name in enumerate(STEP_PHASES)}

    def grown(self) -> dict[str, tuple[float, float]]:
        """The median seconds of the first steps and of the last, by phase and of the whole `step`.

        Empty unless the steps took longer from part to part of the training, little by little.
        """
        self._settle()
        size = len(self._course) // PARTS
        if size < FEWEST_OF_PART:
            return {}
        parts = [self._course[at * size : (at + 1) * size] for at in range(PARTS)]
        steps = [median(map(sum, part)) for part in parts]
        more = steps[-1] - steps[0]
        falls = any(b < HELD * a for a, b in pairwise(steps))
        jumps = max(b - a for a, b in pairwise(steps)) > MOST_AT_ONCE * more
        if steps[-1] < GROWN * steps[0] or falls or jumps:
            return {}
        ends = {
            name: tuple(median(row[at] for row in part) for part in (parts[0], parts[-1]))
            for at, name in enumerate(STEP_PHASES)
        } | {"step": (steps[0], steps[-1])}
        return {name: (first * NANO, last * NANO) for name, (first, last) in ends.items() if last}

    def _error(self, at: int) -> float:
        weighed = [(row[at], kind.weight) for kind in self._kinds for row in kind.rows]
        whole = sum(weight for _, weight in weighed) or 1.0
        mean = sum(figure * weight for figure, weight in weighed) / whole
        variance = sum(weight * (figure - mean) ** 2 for figure, weight in weighed) / whole
        return NANO * math.sqrt(variance / max(1, self.detailed))

    def _mean(self, at: int) -> float:
        return sum(kind.sums[at] * kind.of_time for kind in self._kinds) * NANO / self.steps

    def step(self) -> PhaseTimes:
        """The same for the whole step."""
        self._settle()
        total = sum(sum(kind.sums) + kind.clocked_time for kind in self._kinds)
        mean = total * NANO / self.steps if self.steps else 0.0
        return PhaseTimes(mean, steps=self.steps, **self._quantiles(sum))

    def _quantiles(self, figure: Callable[[Row], float]) -> dict[str, float]:
        weighted = [
            (figure(row) * kind.shorter, kind.weight) for kind in self._kinds for row in kind.rows
        ]
        at = {"p10": 0.1, "p50": 0.5, "p90": 0.9, "p95": 0.95}
        return {name: _quantile(weighted, q) * NANO for name, q in at.items()}


def _entry(at: int, row: Row) -> float:
    return row[at]


def _outliers_out(weighted: list[tuple[float, float]]) -> float:
    """The winsorised mean over the mean: 1 where no few figures stand out.

    The figures below the 10th percentile count as it, those above the 90th as that.
    """
    low, high = _quantile(weighted, 0.1), _quantile(weighted, 0.9)
    plain = sum(figure * weight for figure, weight in weighted)
    clipped = sum(min(max(figure, low), high) * weight for figure, weight in weighted)
    return clipped / plain if plain else 1.0


def _quantile(weighted: list[tuple[float, float]], q: float) -> float:
    """The figure below which a share `q` of the weight lies."""
    left = q * sum(weight for _, weight in weighted)
    ordered = sorted(weighted)
    for figure, weight in ordered:
        left -= weight
        if left <= 0:
            return figure
    return ordered[-1][0] if ordered else 0.0
