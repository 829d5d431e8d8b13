"""Rows of the timed steps, summed exactly and kept thinly for the quantiles."""

from collections.abc import Sequence
from typing import Any

from hotlap.seam.probe.phases import PHASES

MOST_ROWS = 4096


class Tally:
    """Adds up one row of figures a step; memory stays bounded however long the run."""

    def __init__(self, names: Sequence[str] = PHASES) -> None:
        self.names = tuple(names)
        self.steps = 0
        self._sums = [0.0] * len(self.names)
        self._seen = [0] * len(self.names)
        self._rows: list[list[float]] = []
        self._stride = 1

    def add(self, row: list[float]) -> None:
        """Count one step."""
        for index, figure in enumerate(row):
            if figure:
                self._sums[index] += figure
                self._seen[index] += 1
        if self.steps % self._stride == 0:
            self._rows.append(row)
            if len(self._rows) >= MOST_ROWS:
                self._rows = self._rows[::2]
                self._stride *= 2
        self.steps += 1

    def phases(self) -> dict[str, dict[str, Any]]:
        """Mean, quantiles and number of steps for each name that took any time."""
        return {
            name: {
                "mean": self._sums[index] / self.steps,
                "steps": self._seen[index],
                **_quantiles([row[index] for row in self._rows]),
            }
            for index, name in enumerate(self.names)
            if self._seen[index]
        }

    def step(self) -> dict[str, Any]:
        """The same for the whole step."""
        mean = sum(self._sums) / self.steps if self.steps else 0.0
        quantiles = _quantiles([sum(row) for row in self._rows])
        return {"mean": mean, "steps": self.steps, **quantiles}


def _quantiles(figures: list[float]) -> dict[str, float]:
    ordered = sorted(figures)
    last = len(ordered) - 1
    at = {"p10": 0.1, "p50": 0.5, "p90": 0.9}
    return {name: ordered[round(q * last)] if ordered else 0.0 for name, q in at.items()}
