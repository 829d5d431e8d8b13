"""What a search for the batch size found out."""

import math
from dataclasses import asdict, dataclass, field

LINEAR = frozenset({"SGD", "LARS"})
OUT_OF_BUDGET = "the budget"
CLEARLY_FASTER_ALONE = 1.1  # a size timed alone has no interval


@dataclass(frozen=True)
class BatchFacts:
    """What the plain run showed of the script.

    `batch` is its own batch size (0: no DataLoader has one), `loaders` which of its DataLoaders
    are driven, `samples` how many one pass of one process draws (0: unknown), `micro_batches` how
    many batches make one optimizer step, `world` the number of ranks.
    """

    batch: int
    loaders: tuple[int, ...] = ()
    samples: int = 0
    micro_batches: int = 1
    world: int = 1
    optimizer: str = ""
    lr: float = 0.0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class SizeResult:
    """What was measured at one batch size.

    `rate` is in samples per second (0: it was only seen to fit). `ratio` is that over the rate of
    the size it was raced against, pair by pair; `low` and `high` bound it (0 and inf: too few
    pairs, or timed `alone`, for want of memory). `step` is the seconds of an optimizer step when it
    last ran, whatever other programs took then, and `samples` the samples of one (0: not timed).
    `memory` is the peak of one process in bytes: of the accelerator where there is one, else
    resident. `why` says why a size does not fit.
    """

    size: int
    fits: bool
    rate: float = 0.0
    ratio: float = 0.0
    low: float = 0.0
    high: float = math.inf
    step: float = 0.0
    memory: int = 0
    why: str = ""
    samples: float = 0.0
    alone: bool = False

    @property
    def step_seconds(self) -> float:
        """The seconds of a step at `rate`; 0: not timed."""
        return self.samples / self.rate if self.rate else 0.0

    @property
    def faster(self) -> bool:
        """Whether it is shown to be faster than the reference; alone, by a clear distance."""
        return self.low > 1 or (self.alone and self.ratio > CLEARLY_FASTER_ALONE)


@dataclass
class BatchResult:
    """The outcome: every size tried, the fastest, and the largest that fits.

    `fastest` is 0 where no size could be compared with another. `bound` says what ends the sizes
    above `largest`; where it is the budget, no larger size was tried, and the largest that fits is
    not known (`largest_known`). `promising` is a size whose ratio is the best although the races do
    not show that it is faster than the reference; 0: none. `load` is how many cores other programs
    used meanwhile; `asleep`: OpenMP threads slept while they waited, though the user's would spin.
    """

    script: BatchFacts
    rows: dict[int, SizeResult] = field(default_factory=dict)
    fastest: int = 0
    largest: int = 0
    bound: str = ""
    promising: int = 0
    confirmed: tuple[int, ...] = ()
    interrupted: bool = False
    seconds: float = 0.0
    load: float = 0.0
    asleep: bool = False

    @property
    def largest_known(self) -> bool:
        """Whether a larger size was tried and does not fit, or there is none."""
        return bool(self.bound) and self.bound != OUT_OF_BUDGET

    @property
    def reference(self) -> int:
        """The size that the others were raced against."""
        return next((row.size for row in self.rows.values() if row.low == row.high == 1.0), 0)

    def advice(self) -> list[str]:
        """What goes with the fastest size: learning rate and accumulation."""
        own, size = self.script.batch, self.fastest
        if not own or not size or own == size:
            return []
        return [*_accumulation(self.script, size), *_rate_rule(self.script, size / own)]

    def to_json(self) -> dict[str, object]:
        """As plain data."""
        rows = [asdict(self.rows[size]) for size in sorted(self.rows)]
        known = {"largest_known": self.largest_known, "reference": self.reference}
        return {**asdict(self), **known, "rows": rows, "advice": self.advice()}


def _accumulation(script: BatchFacts, size: int) -> list[str]:
    whole = script.batch * script.micro_batches
    steps = whole / size
    if steps < 1:
        return [f"the effective batch grows from {whole} to {size}: no accumulation can keep it"]
    if steps.is_integer():
        return [f"accumulate {steps:.0f} micro-batches to keep the effective batch of {whole}"]
    near = max(1, round(steps))
    return [f"accumulate {near} micro-batches: an effective batch of {near * size} beside {whole}"]


def _rate_rule(script: BatchFacts, factor: float) -> list[str]:
    """Linear for SGD (Goyal et al. 2017), square root for adaptive methods (Hoffer 2017).

    Malladi et al. 2022 derive the square root for Adam from its stochastic differential equation.
    """
    if not script.lr or factor == 1:
        return []
    linear = script.optimizer in LINEAR
    rate = script.lr * (factor if linear else math.sqrt(factor))
    rule = "linear" if linear else "square root"
    return [
        f"without accumulation {script.optimizer} wants lr {script.lr:g} -> {rate:.3g} "
        f"({rule} rule; `hotlap lr` measures it)"
    ]
