"""The timed steps, summed and kept thinly for the quantiles.

Of a program with short steps only some are looked at in detail: all that started a loader, held an
evaluation or took `LONG` times the usual, and of the others, the ordinary ones, a few; the rest
have been clocked. The two kinds are kept apart, and the ordinary steps in detail stand for all
ordinary ones: their phases are scaled to the time these took together (a ratio estimate over two
strata), so that the mean step is exact and a rare evaluation weighs what it should.

Steps are folded into phases a batch at a time: that is cheaper than one by one, and the training
runs on in between with its caches warm.
"""

from collections.abc import Sequence
from statistics import median
from typing import Any

from hotlap.seam.probe.phases import PHASES, Marks, fold

MOST_ROWS = 4096
FIRST = 64
BATCH = 256
LONG_STEP = 1024
LONG = 2.0
NANO = 1e-9

Row = Sequence[float]


class Stratum:
    """Steps of one kind: the nanoseconds of each phase, and how many steps had any of it."""

    def __init__(self) -> None:
        self.steps = 0
        self.sums = [0.0] * len(PHASES)
        self.seen = [0] * len(PHASES)
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

    def weight(self) -> float:
        """Steps that one of the rows stands for."""
        return self.steps / len(self.rows) if self.rows else 0.0


class Tally:
    """Adds up the nanoseconds of each phase.

    `clocked` and `clocked_time` (nanoseconds) are the ordinary steps without detail, for the
    recorder to count. `usual` is the median step of the latest batch, 0 before there is one.
    """

    def __init__(self) -> None:
        self.detailed = 0
        self.clocked = 0
        self.clocked_time = 0
        self.usual = 0.0
        self._ordinary = Stratum()
        self._special = Stratum()
        self._marks: list[tuple[Marks, bool]] = []

    @property
    def steps(self) -> int:
        """All steps, in detail or not."""
        return self.detailed + self.clocked

    def add(self, marks: Marks, special: bool = False) -> None:
        """Count one step in detail; a `special` one stands for itself alone, as a long one does."""
        self.detailed += 1
        self._marks.append((marks, special))
        if len(self._marks) >= (BATCH if self.usual else FIRST) or len(marks[0]) >= LONG_STEP:
            self._digest()

    def _digest(self) -> None:
        if not self._marks:
            return
        rows = [fold(*marks) for marks, _ in self._marks]
        lasted = [sum(row) for row in rows]
        usual = self.usual or median(lasted)
        special = [
            told or time >= LONG * usual
            for (_, told), time in zip(self._marks, lasted, strict=True)
        ]
        self._ordinary.add([row for row, odd in zip(rows, special, strict=True) if not odd])
        self._special.add([row for row, odd in zip(rows, special, strict=True) if odd])
        if len(rows) >= FIRST:
            self.usual = median(lasted)
        self._marks = []

    def phases(self) -> dict[str, dict[str, Any]]:
        """Mean, quantiles and number of steps for each name that took any time, in seconds."""
        self._digest()
        of_time, of_steps = self._scales()
        ordinary, special = self._ordinary, self._special
        return {
            name: {
                "mean": (ordinary.sums[at] * of_time + special.sums[at]) * NANO / self.steps,
                "steps": round(ordinary.seen[at] * of_steps + special.seen[at]),
                **self._quantiles(lambda row, at=at: row[at]),
            }
            for at, name in enumerate(PHASES)
            if ordinary.seen[at] or special.seen[at]
        }

    def step(self) -> dict[str, Any]:
        """The same for the whole step."""
        self._digest()
        total = sum(self._ordinary.sums) + self.clocked_time + sum(self._special.sums)
        mean = total * NANO / self.steps if self.steps else 0.0
        return {"mean": mean, "steps": self.steps, **self._quantiles(sum)}

    def _scales(self) -> tuple[float, float]:
        """What the ordinary steps' time and number are multiplied by to stand for all of them."""
        if not self._ordinary.steps:
            return 1.0, 1.0
        time = 1.0 + self.clocked_time / sum(self._ordinary.sums)
        return time, 1.0 + self.clocked / self._ordinary.steps

    def _quantiles(self, figure: Any) -> dict[str, float]:
        kinds = ((self._ordinary, self._scales()[1]), (self._special, 1.0))
        weighted = [
            (figure(row), kind.weight() * scale) for kind, scale in kinds for row in kind.rows
        ]
        at = {"p10": 0.1, "p50": 0.5, "p90": 0.9}
        return {name: _quantile(weighted, q) * NANO for name, q in at.items()}


def _quantile(weighted: list[tuple[float, float]], q: float) -> float:
    """The figure below which a share `q` of the weight lies."""
    left = q * sum(weight for _, weight in weighted)
    ordered = sorted(weighted)
    for figure, weight in ordered:
        left -= weight
        if left <= 0:
            return figure
    return ordered[-1][0] if ordered else 0.0
