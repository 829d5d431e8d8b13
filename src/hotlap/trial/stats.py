"""Is B faster than A? A sequential paired test on the block times of a lockstep race.

A unit is the log ratio of one pair. Which side runs first alternates, so that a steady drift of the
machine widens the interval (see hotlap.trial.interval) and does not move it.

Two processes of one program differ for as long as they live, by where their memory came to lie:
pairs of one launch cannot see that, however many. So a small difference can be asked to show in
several launches, each by itself (Kalibera & Jones 2013, "Rigorous benchmarking in reasonable
time", repeat measurements at the level of executions for the same reason). See `CLEAR`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean

from hotlap.trial.interval import clip, log_interval

FEWEST = 6

# A difference beyond CLEAR needs but one launch, one beyond SMALL two. What one launch of an MLP
# loop calls against itself is true of the processes and false of the program; how often that is,
# and how often it is so in several, is measured by benchmarks/launches.py. Simulated with processes
# that differ by 3 % (1 sd) and pairs by 8 % (3 %): of races of 60 pairs one launch calls 20 %
# (45 %), three 0 % (2 %); 10 % are then found in 78 % (99 %).
CLEAR = 1.2
SMALL = 1.1
HOPE = 1.3  # one-sided 10 % of a normal distribution


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

    `min_effect`: smallest relative speed difference that counts (0.02 is 2 %). `alpha`: chance of
    ever being wrong, shared by `candidates` races against the same A (Bonferroni). `launches`: in
    how many launches of both sides a difference below `SMALL` must show.
    """

    def __init__(
        self,
        min_effect: float = 0.02,
        alpha: float = 0.05,
        candidates: int = 1,
        launches: int = 1,
    ) -> None:
        if not (min_effect > 0 and 0 < alpha < 1 and candidates >= 1 and launches >= 1):
            raise ValueError(
                "need min_effect > 0, 0 < alpha < 1, candidates >= 1 and launches >= 1, got "
                f"min_effect={min_effect}, alpha={alpha}, candidates={candidates}, "
                f"launches={launches}"
            )
        self._effect = 1 + min_effect
        self._alpha = alpha / candidates
        self._most = launches
        self._launches: list[list[float]] = [[]]

    @property
    def launches(self) -> int:
        """The launches of both sides that were seen so far."""
        return len(self._launches)

    def relaunched(self) -> None:
        """Both sides are fresh processes from here on."""
        self._launches.append([])

    def add(self, a_seconds: float, b_seconds: float) -> None:
        """Add one pair of block times (seconds); the caller alternates which side runs first.

        Raises ValueError for a time that is not positive and finite.
        """
        for side, seconds in (("A", a_seconds), ("B", b_seconds)):
            if not 0 < seconds < math.inf:
                raise ValueError(f"block time of {side} is {seconds} s: must be positive, finite")
        self._launches[-1].append(math.log(a_seconds) - math.log(b_seconds))

    def estimate(self) -> Estimate:
        """Give the ratio and its interval so far; nan in (0, inf) before the first pair."""
        centre, low, high = log_interval(self._launches, self._alpha)
        return Estimate(
            ratio=_exp(centre),
            low=_exp(low),
            high=_exp(high),
            pairs=sum(map(len, self._launches)),
            level=1 - self._alpha,
        )

    def verdict(self) -> Verdict:
        """FASTER or SLOWER by at least min_effect, SAME to within it, or INCONCLUSIVE.

        Never before `FEWEST` pairs, and the interval must clear 1 by half of min_effect, as on a
        real machine neighbouring pairs are not independent. FASTER and SLOWER need one launch,
        two or as many as were asked for, the more the smaller the difference.
        """
        return Verdict.INCONCLUSIVE if self.unrepeated() else self._of_all_pairs()

    def unrepeated(self) -> bool:
        """Whether all pairs show a difference that not enough launches do."""
        edge = self._edges.get(self._of_all_pairs())
        return edge is not None and not self._repeated(edge)

    def below(self, threshold: float) -> bool:
        """Whether the ratio is shown to be less, in as many launches as that takes."""
        edge = self._threshold(threshold)
        return self._passed(edge) and self._repeated(edge)

    def awaits_launch(self, threshold: float | None = None) -> bool:
        """Whether all pairs and every launch show what fresh processes have yet to repeat.

        What looks as if it will do with one launch is given some more pairs of it.
        """
        edges = [self._edges.get(self._of_all_pairs())]
        if threshold is not None and self._passed(self._threshold(threshold)):
            edges.append(self._threshold(threshold))
        return any(
            edge is not None
            and self.launches < self._needed(edge)
            and all(edge.passed_by([units], self._alpha) for units in self._launches)
            and not (self._far(edge) > CLEAR and len(self._launches[0]) < 2 * FEWEST)
            for edge in edges
        )

    @property
    def _edges(self) -> "dict[Verdict, _Edge]":
        """What all pairs and each launch must lie beyond for a verdict."""
        margin = math.log(self._effect) / 2
        return {
            Verdict.FASTER: _Edge(margin, below=False),
            Verdict.SLOWER: _Edge(-margin, below=True),
        }

    def _threshold(self, ratio: float) -> "_Edge":
        return _Edge(math.log(ratio), below=True, origin=math.log(ratio))

    def _of_all_pairs(self) -> Verdict:
        """The verdict if it did not matter which launch a pair is of."""
        now = self.estimate()
        if now.pairs < FEWEST:
            return Verdict.INCONCLUSIVE
        for verdict, edge in self._edges.items():
            if self._passed(edge) and self._far(edge) >= self._effect:
                return verdict
        if 1 / self._effect < now.low and now.high < self._effect:
            return Verdict.SAME
        return Verdict.INCONCLUSIVE

    def _passed(self, edge: "_Edge") -> bool:
        return edge.passed_by(self._launches, self._alpha)

    def _far(self, edge: "_Edge") -> float:
        """The factor by which the ratio lies beyond the edge's origin."""
        centre, *_ = log_interval(self._launches, self._alpha)
        return _exp(edge.origin - centre if edge.below else centre - edge.origin)

    def _repeated(self, edge: "_Edge") -> bool:
        """Whether enough launches lie beyond it, each by itself."""
        return self.launches >= self._needed(edge) and all(
            edge.passed_by([units], self._alpha) for units in self._launches
        )

    def _needed(self, edge: "_Edge") -> int:
        """How many launches, by how far beyond its origin all pairs lie."""
        if edge.clear(CLEAR).passed_by(self._launches, self._alpha):
            return 1
        return min(2, self._most) if self._far(edge) > SMALL else self._most

    def not_faster(self) -> bool:
        """Whether the interval excludes a gain of min_effect."""
        return self.estimate().high < self._effect

    def gain_unlikely(self) -> bool:
        """Whether a gain of min_effect looks out of reach: enough to drop a candidate.

        That drops some that do gain, so it need not hold under peeking, and it is no verdict: from
        four pairs of a launch on, it is enough that in that launch the ratio lies `HOPE` standard
        errors below what counts.
        """
        n = len(self._launches[-1])
        if n < 4:
            return False
        units, inflation = clip(self._launches[-1])
        error = math.sqrt(inflation * sum((u - fmean(units)) ** 2 for u in units) / (n * (n - 1)))
        return fmean(units) + HOPE * error < math.log(self._effect)

    def pairs_needed(self) -> float:
        """About how many more pairs would give a verdict; inf where no end is in sight.

        The interval narrows with the square root of the pairs, and has to clear 1, or to fit
        between the smallest effects worth having, around the present ratio.
        """
        if self.verdict() is not Verdict.INCONCLUSIVE:
            return 0.0
        centre, low, high = log_interval(self._launches, self._alpha)
        effect = math.log(self._effect)
        room = max(abs(centre) - effect / 2, effect - abs(centre))
        if not (math.isfinite(high - low) and room > 0):
            return math.inf
        pairs = self.estimate().pairs
        return max(1.0, pairs * (((high - low) / 2 / room) ** 2 - 1))

    def promising(self) -> bool:
        """Whether a gain is worth some more time: one of five times min_effect is the best guess.

        Or all pairs together show one, which fresh processes have yet to repeat.
        """
        large = self.estimate().ratio > 1 + 5 * (self._effect - 1)
        return large or self._of_all_pairs() is Verdict.FASTER

    def settled(self, precision: float | None = None) -> bool:
        """Whether there is a verdict, and log(ratio) is known to within +- precision if given."""
        if self.verdict() is Verdict.INCONCLUSIVE:
            return False
        _, low, high = log_interval(self._launches, self._alpha)
        return precision is None or (high - low) / 2 <= precision


@dataclass(frozen=True)
class _Edge:
    """A value of log(A / B), and the side of it that something has to be shown to lie on.

    How far beyond counts from `origin`.
    """

    at: float
    below: bool
    origin: float = 0.0

    def passed_by(self, launches: Sequence[Sequence[float]], alpha: float) -> bool:
        """Whether the whole interval lies beyond it."""
        _, low, high = log_interval(launches, alpha)
        return high < self.at if self.below else low > self.at

    def clear(self, factor: float) -> "_Edge":
        """The edge that lies further from the origin by this factor."""
        far = math.log(factor)
        return replace(self, at=self.origin - far if self.below else self.origin + far)


def _exp(value: float) -> float:
    """Exponentiate, to inf where a float ends."""
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf
