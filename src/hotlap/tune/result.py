"""What a tune found out, row by row."""

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from hotlap.core.protocol import ProfilePayload
from hotlap.core.recipe import Kept
from hotlap.trial.parity import Parity
from hotlap.trial.race import RaceResult
from hotlap.trial.stats import Estimate, Verdict

OUT_OF_TIME = "no time was left for it"


class Status(StrEnum):
    """What became of a technique."""

    KEPT = "kept"
    NOT_FASTER = "not faster"
    SAME = "same"
    INCONCLUSIVE = "inconclusive"
    LOAD_DEPENDENT = "load-dependent"
    BROKE_PARITY = "broke parity"
    CRASHED = "crashed"
    NOT_APPLICABLE = "not applicable"
    NOT_ALLOWED = "not allowed"
    NOT_RACED = "not raced"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Outcome:
    """One row of the table: a technique with the values raced, and why it was kept or not.

    `seconds_needed`: about how much more time an inconclusive row needs, infinite where no end is
    in sight. `load`: CPU cores that other programs used meanwhile.
    """

    technique: str
    status: Status
    reason: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    race: RaceResult | None = None
    parity: Parity | None = None
    joined: tuple[str, ...] = ()
    seconds_needed: float = 0.0
    load: float = 0.0

    @property
    def estimate(self) -> Estimate | None:
        """The ratio to report: of what won by fresh pairs, as those that made it win flatter it."""
        if self.race is None:
            return None
        fresh = self.race.fresh
        return fresh if fresh and math.isfinite(fresh.high) else self.race.estimate

    @property
    def is_open(self) -> bool:
        """Whether more time could settle it."""
        late = self.status is Status.NOT_RACED and self.reason == OUT_OF_TIME
        return late or self.status is Status.INCONCLUSIVE

    def kept(self) -> Kept:
        """The row as the recipe stores it."""
        e = self.estimate
        assert e is not None
        assert self.race is not None
        assert self.parity is not None
        return Kept(self.values, e.ratio, (e.low, e.high), self.race.memory, self.parity.rule)


@dataclass(frozen=True)
class UpperBound:
    """A race that bounds what a whole group of techniques can give."""

    name: str
    title: str
    estimate: Estimate | None
    reason: str = ""


@dataclass(frozen=True)
class Advice:
    """What is the user's to do: what it would bring, where, what to type, what to mind."""

    technique: str
    says: str
    place: str
    lines: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass
class TuneResult:
    """Everything a tune learned; partial when it was interrupted.

    `profile` is the probe's payload. `needed`: the budget (seconds) that would settle every open
    row, 0 where there is none. `failed`: what ended the final race, if something did.
    `losses`: of each step of the final race, by side.
    `load`: CPU cores that other programs used on average. `isolation`: the trials' tier.
    """

    command: tuple[str, ...]
    budget: float = 0.0
    profile: ProfilePayload | None = None
    noise_floor: RaceResult | None = None
    deterministic: bool | None = None
    upper_bounds: list[UpperBound] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    final: RaceResult | None = None
    final_parity: Parity | None = None
    failed: str = ""
    interrupted: bool = False
    seconds: float = 0.0
    needed: float = 0.0
    load: float = 0.0
    isolation: str = ""
    notes: list[str] = field(default_factory=list)
    advice: list[Advice] = field(default_factory=list)
    chosen: dict[str, dict[str, Any]] = field(default_factory=dict)
    losses: dict[str, list[float]] = field(default_factory=dict)

    def record(self, row: Outcome) -> None:
        """Add a row, in the place of an earlier one of the same technique with the same values."""
        same = [
            index for index, old in enumerate(self.outcomes)
            if (old.technique, old.values) == (row.technique, row.values)
        ]  # fmt: skip
        for index in reversed(same):
            del self.outcomes[index]
        self.outcomes.append(row)

    @property
    def kept(self) -> list[Outcome]:
        """The techniques kept, in the order they were."""
        return [row for row in self.outcomes if row.status is Status.KEPT]

    @property
    def open(self) -> list[Outcome]:
        """The rows that more time could settle."""
        return [row for row in self.outcomes if row.is_open]

    @property
    def raced(self) -> list[Outcome]:
        """The rows that were raced, or failed when they were to be."""
        return [
            row for row in self.outcomes
            if row.race or row.status in {Status.CRASHED, Status.INCONCLUSIVE}
        ]  # fmt: skip

    @property
    def timed(self) -> bool:
        """Whether any race came to a figure."""
        return any(row.race for row in self.outcomes)

    @property
    def confirmed(self) -> bool:
        """Whether the whole recipe was raced, kept parity, and was faster than the script."""
        if self.final is None or self.final_parity is None:
            return False
        return self.final_parity.kept and self.final.verdict is Verdict.FASTER
