"""Is B faster than A? A sequential paired test on the block times of a lockstep race.

The interval is a confidence sequence: it holds at every look at once, so a race may stop as soon as
it is clear. It inverts the scale-invariant t-mixture martingale (Lai 1976; Wang & Ramdas 2023,
"Anytime-valid t-tests and confidence sequences for Gaussian means with unknown variance"), which
needs no knowledge of the noise:

    M_n = sqrt(c2 / (n + c2)) * (1 - S^2 / ((n + c2) V))^(-n / 2)

with S and V the sum and the sum of squares of n units, less the mean that is put to the test. A
unit is the log ratio of one pair. Which side runs first alternates, so that a steady drift of the
machine widens the interval and does not move it.

Other processes that come and go hit one block of a pair and not the other: rare, wild, symmetric
units. Each unit is clipped at the median +- 3 MAD, and the variance is scaled up for the clipped
ones (Dixon & Tukey 1968). See `CLIP` for what that was seen to cost and to give.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, median

# The mixture's prior on the standardised effect is N(0, 1 / PRIOR). At 5 %, 0.2 gives a finite
# interval from 4 units and a width within 15 % of the best choice at any n from 4 to 60.
PRIOR = 0.2

# Simulated: 40,000 races of 60 pairs, looked at after each unit. Share of races that ever exclude
# the true ratio at alpha 5 %, clipped (unclipped): normal noise 3.5 % (2.4 %), Student t3 2.7 %
# (1.7 %), bursts of load 1.2 % (0.6 %); at alpha 1.25 %, as for 4 candidates, at most 1.0 %. Over
# 300 pairs (4,000 races, normal) 3.9 % (3.6 %). In bursts over 1 % noise, a 10 % change is seen
# within 40 pairs in 99 % (61 %) of races, and equal sides are called the same within 60 pairs in
# 73 % (25 %).
CLIP = 3.0

FEWEST = 6
HOPE = 1.3  # one-sided 10 % of a normal distribution

MAD_TO_SD = 1.4826  # the MAD of a normal distribution is its standard deviation / 1.4826


class Verdict(StrEnum):
    """What can be said of B against A."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    UNDECIDED = "undecided"


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

    `min_effect`: smallest relative speed difference that counts (0.02 is 2 %). `alpha`: chance of
    ever being wrong, shared by `candidates` races against the same A (Bonferroni).
    """

    def __init__(self, min_effect: float = 0.02, alpha: float = 0.05, candidates: int = 1) -> None:
        if not (min_effect > 0 and 0 < alpha < 1 and candidates >= 1):
            raise ValueError(
                "need min_effect > 0, 0 < alpha < 1 and candidates >= 1, got "
                f"min_effect={min_effect}, alpha={alpha}, candidates={candidates}"
            )
        self._effect = 1 + min_effect
        self._alpha = alpha / candidates
        self._units: list[float] = []

    def add(self, a_seconds: float, b_seconds: float) -> None:
        """Add one pair of block times (seconds); the caller alternates which side runs first.

        Raises ValueError for a time that is not positive and finite.
        """
        for side, seconds in (("A", a_seconds), ("B", b_seconds)):
            if not 0 < seconds < math.inf:
                raise ValueError(f"block time of {side} is {seconds} s: must be positive, finite")
        self._units.append(math.log(a_seconds) - math.log(b_seconds))

    def estimate(self) -> Estimate:
        """Give the ratio and its interval so far; nan in (0, inf) before the first pair."""
        centre, half = self._log_interval()
        known = half < math.inf
        return Estimate(
            ratio=_exp(centre),
            low=_exp(centre - half) if known else 0.0,
            high=_exp(centre + half) if known else math.inf,
            pairs=len(self._units),
            level=1 - self._alpha,
        )

    def verdict(self) -> Verdict:
        """FASTER or SLOWER by at least min_effect, SAME to within it, or UNDECIDED.

        Never before `FEWEST` pairs, and the interval must clear 1 by half of min_effect: on a real
        machine neighbouring pairs are not independent, and two processes of the same program differ
        by a little that never goes away (the layout of their memory).
        """
        now = self.estimate()
        if now.pairs < FEWEST:
            return Verdict.UNDECIDED
        margin = math.sqrt(self._effect)
        if now.low > margin and now.ratio >= self._effect:
            return Verdict.FASTER
        if now.high < 1 / margin and now.ratio <= 1 / self._effect:
            return Verdict.SLOWER
        if 1 / self._effect < now.low and now.high < self._effect:
            return Verdict.SAME
        return Verdict.UNDECIDED

    def no_gain(self) -> bool:
        """Whether a gain of min_effect is out of reach: enough to drop a candidate.

        That drops some that do gain, but calls none faster that is not, so it need not hold under
        peeking: from four pairs on, the ratio lies `HOPE` standard errors below what counts.
        """
        if self.estimate().high < self._effect:
            return True
        n = len(self._units)
        if n < 4:
            return False
        units, inflation = _clip(self._units)
        error = math.sqrt(inflation * sum((u - fmean(units)) ** 2 for u in units) / (n * (n - 1)))
        return fmean(units) + HOPE * error < math.log(self._effect)

    def promising(self) -> bool:
        """Whether a gain of five times min_effect is the best guess: worth some more time."""
        return self.estimate().ratio > 1 + 5 * (self._effect - 1)

    def settled(self, precision: float | None = None) -> bool:
        """Whether there is a verdict, and log(ratio) is known to within +- precision if given."""
        if self.verdict() is Verdict.UNDECIDED:
            return False
        return precision is None or self._log_interval()[1] <= precision

    def _log_interval(self) -> tuple[float, float]:
        """Centre and half-width for log(A / B)."""
        if not self._units:
            return math.nan, math.inf
        units, inflation = _clip(self._units)
        centre = fmean(units)
        variation = inflation * sum((unit - centre) ** 2 for unit in units)
        return centre, half_width(len(units), variation, self._alpha)


def half_width(n: int, variation: float, alpha: float) -> float:
    """Half-width of the (1 - alpha) confidence sequence for a mean, from M_n < 1 / alpha.

    `variation`: sum of squares about the sample mean of the n units. With d the distance of the
    tested mean from the sample mean, S = n d and V = variation + n d^2, so that M_n < 1 / alpha is
    n^2 d^2 < reach (variation + n d^2), which bounds d only once n > reach: inf until then.
    """
    reach = (n + PRIOR) * (1 - (alpha**2 * PRIOR / (n + PRIOR)) ** (1 / n))
    if reach >= n:
        return math.inf
    return math.sqrt(reach * variation / (n * (n - reach)))


def _clip(units: list[float]) -> tuple[list[float], float]:
    """Units clipped at median +- CLIP MAD, and the factor this puts on their sum of squares."""
    middle = median(units)
    bound = CLIP * MAD_TO_SD * median(abs(unit - middle) for unit in units)
    if bound == 0:  # half of the units or more are equal: no scale to judge the others by
        return units, 1.0
    clipped = [min(max(unit, middle - bound), middle + bound) for unit in units]
    kept = sum(old == new for old, new in zip(units, clipped, strict=True))
    return clipped, ((len(units) - 1) / max(kept - 1, 1)) ** 2


def _exp(value: float) -> float:
    """Exponentiate, to inf where a float ends."""
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf
