"""The timed steps, summed exactly and kept thinly for the quantiles.

Steps are folded into phases a batch at a time: that is cheaper than one by one, and the training
runs on in between with its caches warm.
"""

from collections.abc import Sequence
from typing import Any

from hotlap.seam.probe.phases import PHASES, Marks, fold

MOST_ROWS = 4096
BATCH = 256
LONG_STEP = 1024
NANO = 1e-9


class Tally:
    """Adds up the nanoseconds of each phase; memory stays bounded however long the run."""

    def __init__(self) -> None:
        self.steps = 0
        self._sums = [0.0] * len(PHASES)
        self._seen = [0] * len(PHASES)
        self._marks: list[Marks] = []
        self._rows: list[Sequence[float]] = []
        self._stride = 1

    def add(self, marks: Marks) -> None:
        """Count one step."""
        self.steps += 1
        self._marks.append(marks)
        if len(self._marks) >= BATCH or len(marks[0]) >= LONG_STEP:
            self._digest()

    def _digest(self) -> None:
        new = [fold(*marks) for marks in self._marks]
        self._marks = []
        for index, column in enumerate(zip(*new, strict=True)):
            self._sums[index] += sum(column)
            self._seen[index] += sum(map(bool, column))
        self._rows += new[:: self._stride]
        if len(self._rows) >= MOST_ROWS:
            self._rows = self._rows[::2]
            self._stride *= 2

    def phases(self) -> dict[str, dict[str, Any]]:
        """Mean, quantiles and number of steps for each name that took any time, in seconds."""
        self._digest()
        return {
            name: {
                "mean": self._sums[index] * NANO / self.steps,
                "steps": self._seen[index],
                **_quantiles([row[index] for row in self._rows]),
            }
            for index, name in enumerate(PHASES)
            if self._seen[index]
        }

    def step(self) -> dict[str, Any]:
        """The same for the whole step."""
        self._digest()
        mean = sum(self._sums) * NANO / self.steps if self.steps else 0.0
        return {"mean": mean, "steps": self.steps, **_quantiles([sum(r) for r in self._rows])}


def _quantiles(figures: list[float]) -> dict[str, float]:
    ordered = sorted(figures)
    last = len(ordered) - 1
    at = {"p10": 0.1, "p50": 0.5, "p90": 0.9}
    return {name: ordered[round(q * last)] * NANO if ordered else 0.0 for name, q in at.items()}
