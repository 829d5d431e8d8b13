"""Is B faster than A? A sequential paired test on the block times of a lockstep race.

Which side runs first alternates, so that a steady drift of the machine widens the interval and does
not move it. Two processes of one program differ for as long as they live, by where their memory
came to lie: pairs of one launch cannot see that, however many. So the interval has two parts, one
for the pairs and one for the launches (Kalibera & Jones 2013, "Rigorous benchmarking in reasonable
time", repeat measurements at the level of executions for the same reason).

Of launch j and pair i the log ratio of the block times is taken to be

    unit = effect + launch_j + slope * excess_ji + noise_ji

where `excess` is by how much longer (in log) A's block took than B's for waiting for a core, and
`launch_j` is by how much the two processes differ for as long as they live. What is wanted is
`effect`: the log ratio of uncontended wall times.

The slope is 1 for a program of one thread (its wall time less the wait is what it takes on an idle
machine), and another one for others, so that it is estimated from all pairs about their launch's
mean, with 1 +- `SLOPE_SD` as the prior.

The noise is judged by a confidence sequence: a set that contains the true mean at all times at once
with probability 1 - alpha, so that looking after every pair costs nothing (Wang & Ramdas 2023,
"Anytime-valid t-tests and confidence sequences for Gaussian means with unknown variance", after
Lai 1976). It inverts the scale-invariant mixture martingale of the t-test,

    M_n = sqrt(c / (n + c)) (1 - S^2 / ((n + c) V))^(-n / 2)

with S and V the sum and the sum of squares of n units, less the mean that is put to the test.
The launches' spread is judged by a t-interval whose variance is the prior's, `LAUNCH_SD` with
`PRIOR_LAUNCHES` degrees of freedom, and the observed one's together.

Other processes that come and go hit one block of a pair and not the other: rare, wild, symmetric
units. What the slope leaves of them is clipped at the median +- 3 MAD of the launch, and the
variance is scaled up for the clipped ones (Dixon & Tukey 1968).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist, fmean, median

# The mixture's prior on the standardised effect is N(0, 1 / PRIOR). At 5 %, 0.2 gives a finite
# interval from 4 units and a width within 15 % of the best choice at any n from 4 to 60.
PRIOR = 0.2
CLIP = 3.0  # MADs; see benchmarks/simulated.py for what it costs and gives
MAD_TO_SD = 1.4826  # the MAD of a normal distribution is its standard deviation / 1.4826
SLOPE_SD = 0.5
LAUNCH_SD = 0.035
PRIOR_LAUNCHES = 4.0
NOISE_ROOM = 1.3
"""Half-width with the pairs' part, of that which is due to the launches alone."""


@dataclass(frozen=True)
class Pair:
    """One pair of blocks: log ratio of their times, and log ratio of the waits' stretch.

    `level` and `wait` are the logs of the geometric means of the two times, and of the stretches.
    """

    unit: float
    excess: float = 0.0
    level: float = 0.0
    wait: float = 0.0


@dataclass(frozen=True)
class Interval:
    """Of log(A / B): centre, and half-widths from the noise of the pairs and from the launches.

    `freedom` (pairs less launches plus one) and `alpha` are what `within` was made with.
    """

    centre: float
    within: float
    between: float
    freedom: int = 1
    alpha: float = 0.05

    @property
    def half(self) -> float:
        """Both together: the errors are independent."""
        return math.hypot(self.within, self.between)

    def half_after(self, growth: float) -> float:
        """Half-width to expect of `growth` times the pairs and launches, with the same noise.

        Of few pairs it falls far faster than with their square root: at 5 %, from 4 to 8 to 0.40.
        """
        if not math.isfinite(self.half):
            return math.inf
        n = self.freedom
        narrowed = half_width(n * growth, growth, self.alpha) / half_width(n, 1.0, self.alpha)
        return math.hypot(self.within * narrowed, self.between / math.sqrt(growth))


def log_interval(
    launches: Sequence[Sequence[Pair]], alpha: float, launch_sd: float = 0.0
) -> Interval:
    """Interval of the effect at confidence 1 - alpha; nan and inf while there are too few pairs.

    `launch_sd`: prior standard deviation of what differs from launch to launch; 0: nothing does.
    """
    launches = [launch for launch in launches if launch]
    pairs = sum(map(len, launches))
    if not pairs:
        return Interval(math.nan, math.inf, math.inf, 1, alpha)
    slope, slope_variance = _slope(launches)
    read = [clip([pair.unit - slope * pair.excess for pair in launch]) for launch in launches]
    means = [fmean(units) for units, _ in read]
    counts = [len(launch) for launch in launches]
    variation = math.fsum(
        inflation * sum((unit - mean) ** 2 for unit in units)
        for (units, inflation), mean in zip(read, means, strict=True)
    )
    noise = variation / max(pairs - len(launches), 1)
    spread, quantile = _launch_spread(means, [noise / n for n in counts], alpha, launch_sd)
    errors = [spread + noise / n for n in counts]
    weights = _weights(errors)
    centre = math.fsum(w * mean for w, mean in zip(weights, means, strict=True))
    excess = math.fsum(
        w * fmean(pair.excess for pair in launch)
        for w, launch in zip(weights, launches, strict=True)
    )
    share = math.fsum(w * w / n for w, n in zip(weights, counts, strict=True))
    freedom = pairs - len(launches) + 1
    within = half_width(freedom, variation, alpha) * math.sqrt(freedom * share)
    if noise > 0:
        within *= math.sqrt(1 + excess**2 * slope_variance / (noise * share))
    between = quantile * math.sqrt(spread * math.fsum(w * w for w in weights))
    return Interval(centre, within, between, freedom, alpha)


def _slope(launches: Sequence[Sequence[Pair]]) -> tuple[float, float]:
    """The slope of log time on log stretch about the launches' means, and its variance."""
    centred = []
    for launch in launches:
        excess, unit = fmean(p.excess for p in launch), fmean(p.unit for p in launch)
        centred += [(pair.excess - excess, pair.unit - unit) for pair in launch]
    square = math.fsum(x * x for x, _ in centred)
    freedom = len(centred) - len(launches) - 1
    if not square or freedom < 1:
        return 1.0, SLOPE_SD**2
    product = math.fsum(x * y for x, y in centred)
    raw = product / square
    noise = math.fsum((y - raw * x) ** 2 for x, y in centred) / freedom
    prior = noise / SLOPE_SD**2
    return (product + prior) / (square + prior), noise / (square + prior) if noise else 0.0


def _launch_spread(
    means: Sequence[float], noises: Sequence[float], alpha: float, launch_sd: float
) -> tuple[float, float]:
    """Variance of what differs from launch to launch, and the t-quantile for it."""
    if not launch_sd:
        return 0.0, 0.0
    more = len(means) - 1
    middle = fmean(means)
    seen = math.fsum((mean - middle) ** 2 for mean in means) - more * fmean(noises)
    freedom = PRIOR_LAUNCHES + more
    variance = (PRIOR_LAUNCHES * launch_sd**2 + max(0.0, seen)) / freedom
    return variance, t_quantile(1 - alpha / 2, freedom)


def launches_needed(ratio: float, min_effect: float, alpha: float = 0.05, most: int = 6) -> int:
    """Launches after which a race can be expected to tell such a ratio from 1; at most `most`.

    By what launches are expected to differ, with room for the noise of their pairs.
    """
    distance = math.log(ratio) - math.log1p(min_effect) / 2
    for launches in range(1, most):
        quantile = t_quantile(1 - alpha / 2, PRIOR_LAUNCHES + launches - 1)
        if NOISE_ROOM * quantile * LAUNCH_SD / math.sqrt(launches) <= distance:
            return launches
    return most


def _weights(errors: Sequence[float]) -> list[float]:
    if not all(errors):
        return [1 / len(errors)] * len(errors)
    total = math.fsum(1 / error for error in errors)
    return [1 / error / total for error in errors]


def half_width(n: float, variation: float, alpha: float) -> float:
    """Half-width of the (1 - alpha) confidence sequence for a mean, from M_n < 1 / alpha.

    `variation`: sum of squares about the sample mean of the n units. With d the distance of the
    tested mean from the sample mean, S = n d and V = variation + n d^2, so that M_n < 1 / alpha is
    n^2 d^2 < reach (variation + n d^2), which bounds d only once n > reach: inf until then.
    """
    reach = (n + PRIOR) * (1 - (alpha**2 * PRIOR / (n + PRIOR)) ** (1 / n))
    if reach >= n:
        return math.inf
    return math.sqrt(reach * variation / (n * (n - reach)))


def t_quantile(probability: float, freedom: float) -> float:
    """Quantile of Student's t by its expansion about the normal one (Abramowitz & Stegun 26.7.5).

    Within 3 % from 4 degrees of freedom on, for probabilities up to 0.999.
    """
    z = NormalDist().inv_cdf(probability)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / freedom**power for power, term in enumerate(terms, 1))


def clip(units: Sequence[float]) -> tuple[Sequence[float], float]:
    """Units clipped at median +- CLIP MAD, and the factor this puts on their sum of squares."""
    middle = median(units)
    bound = CLIP * MAD_TO_SD * median(abs(unit - middle) for unit in units)
    if bound == 0:  # half of the units or more are equal: no scale to judge the others by
        return units, 1.0
    clipped = [min(max(unit, middle - bound), middle + bound) for unit in units]
    kept = sum(old == new for old, new in zip(units, clipped, strict=True))
    return clipped, ((len(units) - 1) / max(kept - 1, 1)) ** 2


FEWEST = 6
MOST_GROWTH = 1e6
UNLIKELY = 1.3  # standard errors: one-sided 10 % of a normal distribution
LIKELY = 0.8
"""Probability of a verdict behind "so much more would settle it" (benchmarks/simulated.py)."""
TINY = 1e-12


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
        self._prior_sd = launch_sd
        self._expected = [launch_sd]
        self._launches: list[list[Pair]] = [[]]
        self._known: Interval | None = None

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
        self._expected.append(self._prior_sd)
        self._known = None

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
        a, b = math.log(a_seconds), math.log(b_seconds)
        waits = math.log(a_stretch), math.log(b_stretch)
        pair = Pair(a - b, waits[0] - waits[1], (a + b) / 2, (waits[0] + waits[1]) / 2)
        self._launches[-1].append(pair)
        self._known = None

    def launches_differ_by(self, sd: float) -> None:
        """By what this launch shows now, launches differ by so much (1 sd of the log ratio).

        It replaces what the launch showed earlier; the largest of all launches counts.
        """
        if self._prior_sd:
            self._expected[-1] = max(self._prior_sd, sd)
            self._known = None

    def interval(self) -> Interval:
        """The interval of log(A / B) so far."""
        if self._known is None:
            self._known = log_interval(self._launches, self._alpha, max(self._expected))
        return self._known

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

    def times(self) -> tuple[float, float]:
        """Seconds of A and of B, of the same pairs and corrected as the ratio is: its two terms."""
        slope, _ = _slope([launch for launch in self._launches if launch])
        level = median(p.level - slope * p.wait for launch in self._launches for p in launch)
        half = self.interval().centre / 2
        return _exp(level + half), _exp(level - half)

    def waited(self) -> float:
        """By how much waits for a core lengthened a block, in the mean (0.1: by 10 %)."""
        return _exp(fmean(pair.wait for launch in self._launches for pair in launch)) - 1

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
        return now.centre + UNLIKELY * self._moves(growth) < needed

    def promising(self) -> bool:
        """Whether a gain is worth some more time: five times min_effect is the best guess."""
        return self.interval().centre > 5 * self._effect

    def growth_needed(self, chance: float = LIKELY) -> float:
        """How many times the data give a verdict with such a chance; inf where no end is in sight.

        That the ratio may still move is allowed for.
        """
        if self.verdict() is not Verdict.INCONCLUSIVE:
            return 1.0
        if not math.isfinite(self.interval().half):
            return math.inf
        pairs = sum(map(len, self._launches))
        return max(FEWEST / pairs, _least(lambda growth: self._chance_of_verdict(growth) >= chance))

    def _chance_of_verdict(self, growth: float) -> float:
        """How probable a verdict is with `growth` times the data.

        The centre then is about normal around the present one, with the variance that the error
        of the mean loses on the way.
        """
        now = self.interval()
        half = now.half_after(growth)
        then = NormalDist(now.centre, self._moves(growth))
        told = max(self._effect, self._effect / 2 + half)
        same = min(self._same - half, told)
        outside = then.cdf(-told) + 1 - then.cdf(told)
        return outside + (then.cdf(same) - then.cdf(-same) if same > 0 else 0.0)

    def _moves(self, growth: float) -> float:
        """By how much the centre is expected to move (1 sd) with `growth` times the data."""
        return self.interval().half / 2 * math.sqrt(max(1 - 1 / growth, TINY))

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
