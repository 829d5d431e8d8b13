"""A technique: one way to train faster or smaller, as a frozen record."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from hotlap.core.move import Choice, Move, choice_of
from hotlap.core.pattern import Pattern


class Numerics(StrEnum):
    """The numerics classes, in order of how much a run may differ.

    exact: losses bitwise equal. rounding: same formula, other rounding order. precision: fewer
    bits. training: the optimisation itself changes, so it is never switched on unasked.
    """

    EXACT = "exact"
    ROUNDING = "rounding"
    PRECISION = "precision"
    TRAINING = "training"

    @property
    def width(self) -> int:
        """Its place in that order: the larger, the more may differ."""
        return list(Numerics).index(self)


UNASKED = frozenset({Numerics.EXACT, Numerics.ROUNDING, Numerics.PRECISION})

PERTURBED_AT = 8
"""The step after which an A/A test nudges one side's parameters by one unit in the last place."""


class Group(StrEnum):
    """The part of training a technique works on, in the catalogue's order."""

    DATA_LOADING = "data loading"
    TRANSFER = "transfer"
    COMPUTE = "compute"
    OPTIMIZER = "optimizer"
    MEMORY = "memory"
    DEBUGGING = "debugging"
    DISTRIBUTED = "distributed"


class How(StrEnum):
    """How a technique reaches a script."""

    MOVE = "move"
    ADVICE = "advice"
    PART = "part"


@dataclass(frozen=True)
class Claim:
    """What an article or paper says, on its own hardware; never shown as our result."""

    text: str
    source: str


@dataclass(frozen=True)
class Need:
    """A fact about the script that must hold; a leading `!` means it must not."""

    fact: str
    reason: str

    def holds(self, facts: dict[str, object]) -> bool:
        """Whether the facts of a profiled run meet this need."""
        name = self.fact.removeprefix("!")
        return bool(facts.get(name)) is not self.fact.startswith("!")


class Work(StrEnum):
    """What of a phase a technique shortens: work of a GPU, of its host, or of the network."""

    KERNELS = "kernels"
    LAUNCHES = "launches"
    BOTH = "both"
    COMMUNICATION = "communication"


@dataclass(frozen=True)
class Symptom:
    """What a profile shows where the technique would help.

    `phases` are the phases of the step it can shorten; `gives` the largest share of them it can
    take away (1.0: all). `place` names the source place to point at. `says` is the finding's line.
    `by_line`: only what was sampled on that line counts, not the whole phases; each second there is
    worth `line_gives`, more than one where other lines pay for it, too. `sure`: it is a fault that
    was seen, not an option, which on average gives the part `likely` of it: 3 of 10 options gave
    something in the records of benchmarks/techniques.py. `whole`: it acts on all of its phases;
    else on a part of them, so that their bound is not its own. `seen`: the fact by which the fault
    is seen; without it, it is an option, and `unseen` its line. `work`: what of its phases it can
    shorten. Faster kernels do not help where the GPU waits for the host, nor faster launches where
    it does not, and neither where ranks wait for gradients that are on their way.
    """

    phases: tuple[str, ...]
    says: str
    place: str
    gives: float = 1.0
    by_line: bool = False
    sure: bool = True
    likely: float = 0.3
    line_gives: float = 0.0
    whole: bool = True
    seen: str = ""
    unseen: str = ""
    work: Work = Work.BOTH

    def where(self, facts: Mapping[str, object]) -> "Symptom":
        """What it is with these facts: an option, where the fault was not seen."""
        if not self.seen or facts.get(self.seen):
            return self
        return replace(self, sure=False, says=self.unseen)

    @property
    def expected(self) -> float:
        """The part of its phases it can be expected to take away; what to try first goes by it."""
        return self.gives if self.sure else self.likely * self.gives


@dataclass(frozen=True)
class Example:
    """Source before and after the technique; `after=None` means: leave this alone."""

    before: str
    after: str | None = None


@dataclass(frozen=True, kw_only=True)
class Technique:
    """One record of the catalogue. The registry fills `id` in from the file name.

    `joins` names techniques that are switched on with it where the script lacks what they give.
    `grants` are the facts that hold once it is on. `layout_sensitive`: losses may depend on which
    process draws the random numbers. `whole_epochs`: its gain begins after the first epoch.
    `on_request`: raced only when the user asks. `load_dependent`: its gain under background load
    may be a loss without, so that a race under load does not put it into a recipe.
    `inference`: it also applies to programs that do not train. `switchable`: it can be switched on
    and off between two steps of a live process, and is as fast there as from the first step on.
    `saves_memory`: switched on when memory runs out. `patterns`: where source shows that it is
    missing.
    """

    title: str
    group: Group
    numerics: Numerics
    how: tuple[How, ...]
    why: str
    changes: str
    avoid: str
    claims: tuple[Claim, ...] = ()
    needs: tuple[Need, ...] = ()
    conflicts: tuple[str, ...] = ()
    joins: tuple[str, ...] = ()
    moves: tuple[Move, ...] = ()
    symptom: Symptom | None = None
    patterns: tuple[Pattern, ...] = ()
    examples: tuple[Example, ...] = ()
    layout_sensitive: bool = False
    whole_epochs: bool = False
    on_request: bool = False
    saves_memory: bool = False
    load_dependent: bool = False
    inference: bool = False
    switchable: bool = False
    grants: tuple[tuple[str, object], ...] = ()
    id: str = ""

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The choices that its moves leave to the race."""
        found = (choice_of(move) for move in self.moves)
        return tuple(choice for choice in found if choice is not None)

    @property
    def facts(self) -> tuple[str, ...]:
        """The facts that it needs or grants, and those that its symptom and patterns name."""
        needed = tuple(need.fact.removeprefix("!") for need in self.needs)
        seen = (self.symptom.seen,) if self.symptom and self.symptom.seen else ()
        parts = (pattern.part_of for pattern in self.patterns if pattern.part_of)
        return (*needed, *seen, *parts, *(name for name, _ in self.grants))

    @property
    def phases(self) -> tuple[str, ...]:
        """The phases that its symptom and its patterns name."""
        of_patterns = (phase for pattern in self.patterns for phase in pattern.phases)
        return (*(self.symptom.phases if self.symptom else ()), *of_patterns)

    def missing(self, facts: dict[str, object]) -> str:
        """Why it does not apply to a script with these facts; empty when it does.

        The fact `unchanged` says of techniques why they would change none of the script's calls.
        """
        if facts.get("inference") and not self.inference:
            return "it only concerns training"
        missing = next((need.reason for need in self.needs if not need.holds(facts)), "")
        unchanged = facts.get("unchanged")
        return missing or (unchanged.get(self.id, "") if isinstance(unchanged, dict) else "")
