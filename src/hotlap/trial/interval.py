"""The interval of a race: pairs within launches, corrected for the time spent waiting for a core.

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
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, median

# The mixture's prior on the standardised effect is N(0, 1 / PRIOR). At 5 %, 0.2 gives a finite
# interval from 4 units and a width within 15 % of the best choice at any n from 4 to 60.
PRIOR = 0.2
CLIP = 3.0  # MADs; see benchmarks/simulated.py for what it costs and gives
MAD_TO_SD = 1.4826  # the MAD of a normal distribution is its standard deviation / 1.4826
SLOPE_SD = 0.5
LAUNCH_SD = 0.035
PRIOR_LAUNCHES = 4.0


@dataclass(frozen=True)
class Pair:
    """One pair of blocks: log ratio of their times, and log ratio of the waits' stretch."""

    unit: float
    excess: float = 0.0


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
