"""What a tune found out, row by row."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from hotlap.core.recipe import Kept
from hotlap.trial.parity import Parity
from hotlap.trial.race import RaceResult
from hotlap.trial.stats import Estimate

OUT_OF_TIME = "the time budget was spent; --budget gives it more"


class Status(StrEnum):
    """What became of a technique."""

    KEPT = "kept"
    NO_GAIN = "no gain"
    INCONCLUSIVE = "inconclusive"
    BROKE_PARITY = "broke parity"
    CRASHED = "crashed"
    NOT_APPLICABLE = "not applicable"
    NOT_ALLOWED = "not allowed"
    NOT_RACED = "not raced"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Outcome:
    """One row of the table: a technique with the values raced, and why it was kept or not."""

    technique: str
    status: Status
    reason: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    race: RaceResult | None = None
    parity: Parity | None = None
    joined: tuple[str, ...] = ()

    def kept(self) -> Kept:
        """The row as the recipe stores it."""
        assert self.race is not None
        assert self.parity is not None
        e = self.race.estimate
        return Kept(self.values, e.ratio, (e.low, e.high), self.race.memory, self.parity.rule)


@dataclass(frozen=True)
class Ceiling:
    """A what-if race: what a whole group of techniques can give at most."""

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

    `needed`: the budget (seconds) that would have sufficed, where the one given did not.
    """

    command: tuple[str, ...]
    floor: RaceResult | None = None
    deterministic: bool | None = None
    ceilings: list[Ceiling] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    final: RaceResult | None = None
    final_parity: Parity | None = None
    interrupted: bool = False
    seconds: float = 0.0
    needed: float = 0.0
    notes: list[str] = field(default_factory=list)
    advice: list[Advice] = field(default_factory=list)

    @property
    def kept(self) -> list[Outcome]:
        """The techniques kept, in the order they were."""
        return [row for row in self.outcomes if row.status is Status.KEPT]

    @property
    def raced(self) -> list[Outcome]:
        """The rows that were raced, or crashed when they were to be."""
        return [row for row in self.outcomes if row.race or row.status is Status.CRASHED]

    @property
    def timed(self) -> bool:
        """Whether any race came to a figure."""
        return any(row.race for row in self.outcomes)

    @property
    def confirmed(self) -> bool:
        """Whether the whole recipe was raced, kept parity, and is not slower than the script."""
        if self.final is None or self.final_parity is None:
            return False
        return self.final_parity.kept and self.final.estimate.high > 1
