"""Is B faster than A? A sequential paired test on the block times of a lockstep race.

Which side runs first alternates, so that a steady drift of the machine widens the interval and does
not move it. Two processes of one program differ for as long as they live, by where their memory
came to lie: pairs of one launch cannot see that, however many. So the interval has two parts, one
for the pairs and one for the launches (Kalibera & Jones 2013, "Rigorous benchmarking in reasonable
time", repeat measurements at the level of executions for the same reason). How the interval is made
is in hotlap.trial.interval.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from hotlap.trial.interval import Interval, Pair, log_interval

FEWEST = 6
MOST_GROWTH = 1e6
UNLIKELY = 1.3  # standard errors: one-sided 10 % of a normal distribution


class Verdict(StrEnum):
    """What can be said of B against A."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Estimate:
    """Speed ratio A / B: above 1, B is faster.

    `low` and `high` bound it at confidence `level` (0 and inf while there are too few pairs to
    say); `pairs` counts the pairs that entered.
    """

    ratio: float
    low: float
    high: float
    pairs: int
    level: float


class PairedTest:
    """Collects pairs of block times and says, at any moment, what they show.

    Args:
        min_effect: smallest relative speed difference that counts (0.02 is 2 %).
        alpha: chance of ever being wrong, shared by `candidates` races against the same A
            (Bonferroni).
        same_within: relative difference up to which the two count as the same.
        launch_sd: by how much launches are expected to differ (1 sd of the log ratio); 0 where
            both sides are one process.

    """

    def __init__(
        self,
        min_effect: float = 0.02,
        alpha: float = 0.05,
        candidates: int = 1,
        same_within: float = 0.05,
        launch_sd: float = 0.0,
    ) -> None:
        if not (min_effect > 0 and 0 < alpha < 1 and candidates >= 1 and same_within > 0):
            raise ValueError(
                "need min_effect > 0, 0 < alpha < 1, candidates >= 1 and same_within > 0, got "
                f"min_effect={min_effect}, alpha={alpha}, candidates={candidates}, "
                f"same_within={same_within}"
            )
        self._effect = math.log1p(min_effect)
        self._same = math.log1p(same_within)
        self._alpha = alpha / candidates
        self._launch_sd = launch_sd
        self._launches: list[list[Pair]] = [[]]

    @property
    def launches(self) -> int:
        """The launches of both sides that were seen so far."""
        return len(self._launches)

    @property
    def pairs_of_launch(self) -> int:
        """Pairs since the last launch."""
        return len(self._launches[-1])

    def relaunched(self) -> None:
        """Both sides are fresh processes from here on."""
        self._launches.append([])

    def add(
        self, a_seconds: float, b_seconds: float, a_stretch: float = 1.0, b_stretch: float = 1.0
    ) -> None:
        """Add one pair of block times (seconds); the caller alternates which side runs first.

        A stretch is how many times longer a block's threads took for waiting for a core.

        Raises ValueError for a time that is not positive and finite.
        """
        for side, seconds in (("A", a_seconds), ("B", b_seconds)):
            if not 0 < seconds < math.inf:
                raise ValueError(f"block time of {side} is {seconds} s: must be positive, finite")
        excess = math.log(a_stretch) - math.log(b_stretch)
        self._launches[-1].append(Pair(math.log(a_seconds) - math.log(b_seconds), excess))

    def interval(self) -> Interval:
        """The interval of log(A / B) so far."""
        return log_interval(self._launches, self._alpha, self._launch_sd)

    def estimate(self) -> Estimate:
        """Give the ratio and its interval so far; nan in (0, inf) before the first pair."""
        now = self.interval()
        known = math.isfinite(now.half)
        return Estimate(
            ratio=_exp(now.centre),
            low=_exp(now.centre - now.half) if known else 0.0,
            high=_exp(now.centre + now.half) if known else math.inf,
            pairs=sum(map(len, self._launches)),
            level=1 - self._alpha,
        )

    def verdict(self) -> Verdict:
        """FASTER or SLOWER by at least min_effect, SAME within same_within, or INCONCLUSIVE.

        Never before `FEWEST` pairs, and the interval must clear 1 by half of min_effect, as on a
        real machine neighbouring pairs are not independent.
        """
        now = self.interval()
        if sum(map(len, self._launches)) < FEWEST:
            return Verdict.INCONCLUSIVE
        if abs(now.centre) >= self._effect and abs(now.centre) - now.half > self._effect / 2:
            return Verdict.FASTER if now.centre > 0 else Verdict.SLOWER
        if abs(now.centre) + now.half < self._same:
            return Verdict.SAME
        return Verdict.INCONCLUSIVE

    def not_faster(self) -> bool:
        """Whether the interval excludes a gain of min_effect."""
        now = self.interval()
        return now.centre + now.half < self._effect

    def below(self, threshold: float) -> bool | None:
        """Whether the ratio is shown to be below the threshold (True), or above it (False)."""
        now = self.interval()
        distance = now.centre - math.log(threshold)
        return distance < 0 if abs(distance) > now.half else None

    def gain_unlikely(self, growth: float) -> bool:
        """Whether `growth` times the data are unlikely (10 %) to show a gain of min_effect."""
        now = self.interval()
        if not math.isfinite(now.half) or growth <= 1:
            return False
        needed = max(self._effect, self._effect / 2 + now.half_after(growth))
        error = now.half / 2 * math.sqrt(1 - 1 / growth)
        return now.centre + UNLIKELY * error < needed

    def promising(self) -> bool:
        """Whether a gain is worth some more time: five times min_effect is the best guess."""
        return self.interval().centre > 5 * self._effect

    def growth_needed(self) -> float:
        """About how many times the data would give a verdict; inf where no end is in sight.

        The interval has to clear 1, or to fit into what counts as the same, around the present
        ratio.
        """
        if self.verdict() is not Verdict.INCONCLUSIVE:
            return 1.0
        now = self.interval()
        distance = abs(now.centre)
        clear = distance - self._effect / 2 if distance >= self._effect else 0.0
        room = max(clear, self._same - distance)
        if not (math.isfinite(now.half) and room > 0):
            return math.inf
        pairs = sum(map(len, self._launches))
        return max(FEWEST / pairs, _least(lambda growth: now.half_after(growth) <= room))

    def settled(self, precision: float | None = None) -> bool:
        """Whether there is a verdict, and log(ratio) is known to within +- precision if given."""
        if self.verdict() is Verdict.INCONCLUSIVE:
            return False
        return precision is None or self.interval().half <= precision


def _least(enough: Callable[[float], bool]) -> float:
    """The least growth of the data that is enough, to 1 %; inf beyond `MOST_GROWTH`."""
    low, high = 1.0, MOST_GROWTH
    if not enough(high):
        return math.inf
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _exp(value: float) -> float:
    """Exponentiate, to inf where a float ends."""
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf
