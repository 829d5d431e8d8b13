"""How many times sooner B reaches a target than A, from pairs of runs of which some never do.

Each seed gives one pair. The log of A's time over B's is taken as normal with unknown mean and
variance. A run that did not reach the target within its time is right-censored: it would have
taken longer than that, so that the pair bounds the log ratio from one side. The interval holds
every mean whose profile likelihood ratio stays below

    n log(1 + t^2 / (n - 1)),   t the 1 - alpha / 2 quantile of Student's t with n - 1 degrees,

which for pairs without censoring is exactly the paired t-interval (the likelihood ratio is
n log(1 + T^2 / (n - 1)) with T the t statistic), and treats censored pairs by their likelihood
(Cox & Oakes 1984, "Analysis of Survival Data", chapter 5). How often it is wrong was simulated:
`tests/trial/test_time_ratio.py`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean

from hotlap.trial.stats import Verdict, t_quantile

FEWEST_PAIRS = 3
SPREADS = [0.02 * 1.25**step for step in range(19)]
"""Standard deviations of the log ratio that bounds are judged by: 0.02 to 1.1. Runs of one command
differ by 2 % at the least, so that a few equal times prove nothing beyond that; a spread above 1.1
(one run in three more than 3 times as long) would make any number of bounds compatible with 1."""
FARTHEST = math.log(1000.0)
CLOSE = 1e-7
"""Width, as a log ratio, at which a search for a mean ends."""
GOLDEN = (math.sqrt(5) - 1) / 2
_NORMAL = NormalDist()


@dataclass(frozen=True)
class Time:
    """Seconds until a run reached the target, or until it was given up without having done so."""

    seconds: float
    reached: bool


@dataclass(frozen=True)
class TimeRatio:
    """A's time over B's: above 1, B is sooner. `pairs` counts those that say something."""

    ratio: float
    low: float
    high: float
    pairs: int
    level: float
    verdict: Verdict


@dataclass(frozen=True)
class _Unit:
    """A log ratio, or a bound: `side` is 1 where it is at least `value`, -1 where at most."""

    value: float
    side: int


def time_ratio(
    pairs: Sequence[tuple[Time, Time]], alpha: float = 0.05, same_within: float = 0.1
) -> TimeRatio:
    """The ratio, its interval and the verdict on B, from pairs of (A's time, B's time).

    Args:
        pairs: one pair a seed; a pair in which neither run reached the target says nothing.
        alpha: chance that the interval misses the true ratio.
        same_within: the verdict is SAME where the interval lies within 1 -+ this share.
    """
    units = [unit for pair in pairs if (unit := _unit(*pair)) is not None]
    if len(units) < FEWEST_PAIRS:
        centre = _centre(units) if units else math.nan
        ratio = math.exp(centre) if units else math.nan
        return TimeRatio(ratio, 0.0, math.inf, len(units), 1 - alpha, Verdict.INCONCLUSIVE)
    n = len(units)
    limit = n * math.log1p(t_quantile(1 - alpha / 2, n - 1) ** 2 / (n - 1))
    best = _centre(units)
    top = _profile(units, best)

    def inside(mean: float) -> bool:
        return 2 * (top - _profile(units, mean)) <= limit

    low = _edge(inside, best, -FARTHEST)
    high = _edge(inside, best, FARTHEST)
    verdict = Verdict.INCONCLUSIVE
    if low > 0:
        verdict = Verdict.FASTER
    elif high < 0:
        verdict = Verdict.SLOWER
    elif -math.log1p(same_within) < low and high < math.log1p(same_within):
        verdict = Verdict.SAME
    ends = (
        0.0 if low <= -FARTHEST else math.exp(low),
        math.inf if high >= FARTHEST else math.exp(high),
    )
    return TimeRatio(math.exp(best), *ends, n, 1 - alpha, verdict)


def _unit(a: Time, b: Time) -> _Unit | None:
    if not (a.reached or b.reached):
        return None
    side = 0 if a.reached and b.reached else (1 if b.reached else -1)
    return _Unit(math.log(a.seconds / b.seconds), side)


def _likelihood(units: Sequence[_Unit], mean: float, spread: float) -> float:
    """The log likelihood of the units."""
    total = 0.0
    for unit in units:
        z = (unit.value - mean) / spread
        if unit.side == 0:
            total -= 0.5 * z * z + math.log(spread)
        else:
            total += math.log(max(_NORMAL.cdf(-unit.side * z), 1e-300))
    return total


def _profile(units: Sequence[_Unit], mean: float) -> float:
    """The log likelihood at the spread that fits this mean best."""
    if all(unit.side == 0 for unit in units):
        variance = fmean((unit.value - mean) ** 2 for unit in units)
        return _likelihood(units, mean, max(math.sqrt(variance), SPREADS[0]))
    return max(_likelihood(units, mean, spread) for spread in SPREADS)


def _centre(units: Sequence[_Unit]) -> float:
    """The most likely mean; where all pairs are bounds of one side, the middle bound itself."""
    values = [unit.value for unit in units]
    sides = {unit.side for unit in units}
    if sides == {0}:
        return fmean(values)
    if len(sides) == 1:
        return sorted(values)[len(values) // 2]
    low, high = min(values) - 1.0, max(values) + 1.0
    one, two = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_one, at_two = _profile(units, one), _profile(units, two)
    while high - low > CLOSE:  # golden-section search; the profile has one maximum
        if at_one < at_two:
            low, one, at_one = one, two, at_two
            two = low + GOLDEN * (high - low)
            at_two = _profile(units, two)
        else:
            high, two, at_two = two, one, at_one
            one = high - GOLDEN * (high - low)
            at_one = _profile(units, one)
    return (low + high) / 2


def _edge(inside: Callable[[float], bool], start: float, far: float) -> float:
    """The end of the interval between a mean inside it and a far one, by bisection."""
    if inside(far):
        return far
    while abs(far - start) > CLOSE:
        middle = (start + far) / 2
        if inside(middle):
            start = middle
        else:
            far = middle
    return start
