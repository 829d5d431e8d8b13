"""The curve of a learning-rate range test, and what to read from it. Standard library only."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH = 2.0  # of the smoothing kernel, in steps
REACH = 3  # steps to either side that a slope is taken over
DIVISOR = 5
FEWEST = 8
MEANINGS = {
    "steepest": "where the loss falls fastest",
    "valley": "two thirds into the longest fall",
    "lowest": "where the loss is lowest",
}


@dataclass(frozen=True)
class Sweep:
    """What a range test saw.

    `losses[i]` is the loss right after the step with learning rate `rates[i]`; `first` the loss
    before any step. `ended` is `end of the sweep`, `diverged`, or what else ended it.
    """

    first: float
    rates: tuple[float, ...]
    losses: tuple[float, ...]
    ended: str = "end of the sweep"

    def smoothed(self) -> list[float]:
        """The finite losses, smoothed without lag: a Gaussian over neighbouring steps."""
        losses = self._finite()
        span = range(len(losses))
        found = []
        for here in span:
            weights = [math.exp(-0.5 * ((there - here) / WIDTH) ** 2) for there in span]
            total = sum(w * loss for w, loss in zip(weights, losses, strict=True))
            found.append(total / sum(weights))
        return found

    def readings(self) -> dict[str, float | None]:
        """Each rule's rate by name; None throughout if the loss never falls."""
        names = {name: getattr(self, name) for name in MEANINGS}
        return {name: rule() if self._falls() else None for name, rule in names.items()}

    def steepest(self) -> float | None:
        """The rate where the smoothed loss falls fastest a decade; None if it never falls.

        Smith 2017, "Cyclical Learning Rates", reads its range off the same curve by eye.
        """
        if not self._falls():
            return None
        curve = self.smoothed()[: self._lowest() + 1]
        last = len(curve) - 1
        slopes = [
            (curve[min(last, at + REACH)] - curve[max(0, at - REACH)])
            / (min(last, at + REACH) - max(0, at - REACH))
            for at in range(len(curve))
        ]
        return self.rates[min(range(len(slopes)), key=slopes.__getitem__)]

    def valley(self) -> float | None:
        """The rate two thirds into the longest fall of the loss; None if it never falls.

        The longest falling subsequence of the smoothed losses, as in fastai's `valley`.
        """
        if not self._falls():
            return None
        start, end = _longest_fall(self.smoothed())
        return self.rates[start + round((end - start) * 2 / 3)]

    def lowest(self) -> float | None:
        """The rate where the smoothed loss is lowest; None if it never falls."""
        return self.rates[self._lowest()] if self._falls() else None

    def suggestion(self) -> float | None:
        """The rate to try first: a fifth of where the loss is lowest; None if it never falls.

        A rate that is best for the next few steps is too high for many. On the small tasks of
        `benchmarks/optim.py` the best fixed rate lay nearer to this than to the other readings.
        """
        lowest = self.lowest()
        return None if lowest is None else lowest / DIVISOR

    def still_falling(self) -> bool:
        """Whether the loss is lowest at the end of the sweep: a higher rate may be better."""
        return self._falls() and self._lowest() >= len(self.smoothed()) - 2

    def to_json(self) -> dict[str, object]:
        """Everything, as plain data."""
        return {
            "first": self.first,
            "rates": list(self.rates),
            "losses": list(self.losses),
            "ended": self.ended,
            **self.readings(),
            "suggestion": self.suggestion(),
        }

    def _finite(self) -> list[float]:
        bad = (i for i, loss in enumerate(self.losses) if not math.isfinite(loss))
        return list(self.losses[: next(bad, len(self.losses))])

    def _falls(self) -> bool:
        """Whether the curve goes down by more than its noise does."""
        curve = self.smoothed()
        if len(curve) < FEWEST:
            return False
        start, at = _mean(curve[: FEWEST // 2]), self._lowest()
        noise = [loss - smooth for loss, smooth in zip(self.losses, curve[: at + 1], strict=False)]
        spread = math.sqrt(_mean([part * part for part in noise]))
        return at > 0 and start - curve[at] > 2 * spread

    def _lowest(self) -> int:
        curve = self.smoothed()
        return min(range(len(curve)), key=curve.__getitem__, default=0)


def geometric(start: float, end: float, steps: int) -> list[float]:
    """`steps` rates from `start` to `end`, evenly spaced on a logarithmic scale.

    Raises:
        ValueError: not 0 < start < end, or fewer than 2 steps.
    """
    if not 0 < start < end < math.inf:
        raise ValueError(f"the rates run from {start:g} to {end:g}; it takes 0 < from < to")
    if steps < FEWEST:
        raise ValueError(f"{steps} steps are too few for a curve; at least {FEWEST}")
    return [start * (end / start) ** (i / (steps - 1)) for i in range(steps)]


class Divergence:
    """Tells when the loss has left for good.

    It has when it is not finite, or when its running mean over the last few steps is `factor` times
    the best such mean and above where it began, by more than early losses scatter and than it fell.
    """

    def __init__(self, factor: float = 4.0, window: int = 3) -> None:
        self._factor = factor
        self._window = window
        self._losses: list[float] = []
        self._best = math.inf

    def add(self, loss: float) -> bool:
        """Take the next loss; True if the sweep should end."""
        if not math.isfinite(loss):
            return True
        self._losses.append(loss)
        mean = _mean(self._losses[-self._window :])
        self._best = min(self._best, mean)
        if len(self._losses) <= FEWEST:
            return False
        early = self._losses[:FEWEST]
        start = _mean(early)
        scatter = max(early) - min(early)
        above = start + max(start - self._best, 0.0) + 3 * scatter
        return mean > above and mean > self._factor * self._best


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _longest_fall(curve: Sequence[float]) -> tuple[int, int]:
    """First and last index of the longest falling subsequence."""
    lengths, starts = [1] * len(curve), list(range(len(curve)))
    for here in range(len(curve)):
        for there in range(here):
            if curve[here] < curve[there] and lengths[there] + 1 > lengths[here]:
                lengths[here], starts[here] = lengths[there] + 1, starts[there]
    end = max(range(len(curve)), key=lengths.__getitem__, default=0)
    return (starts[end], end) if curve else (0, 0)
