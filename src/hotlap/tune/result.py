"""What a tune found out, row by row; the recipe, its file, and what is left to the user."""

import datetime
import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from hotlap.core.machine import Machine
from hotlap.core.protocol import Losses, ProfilePayload
from hotlap.core.recipe import (
    Kept,
    Measured,
    Recipe,
    hash_of,
    script_of,
    torch_version,
    unconfirmed,
)
from hotlap.core.registry import technique
from hotlap.profile.model import NO_BOUND, Finding, Remedy
from hotlap.profile.packing import LESS_TRANSFORMS, WORTH, proposal
from hotlap.trial.command import shown
from hotlap.trial.load import shared
from hotlap.trial.parity import Parity
from hotlap.trial.race import RaceResult
from hotlap.trial.stats import Estimate, Verdict
from hotlap.tune.time_plan import FEWEST_PAIRS

FURTHER = 0.05
"""Share of a step from which a problem's further causes are named as well."""
NAMED_PLACES = 2
"""Places that a piece of advice names."""
SENSIBLE_SECONDS = 900.0
"""More racing of one row than this is not advised: on a calmer machine it takes far less."""
NOISY = 1.8
"""Upper over lower end of an A/A test's interval from which small gains cannot be seen."""
LIVE_FINAL = "no time for fresh processes: the final race went on in live ones"
RACE_STANDS = "no time for a final race: the race of the one technique stands for it"
OUT_OF_TIME = "no time was left for it"
UNSEEN = "while it was profiled"
ENDED = "the tune ended before its race"


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


NOT_CONFIRMED = "not confirmed"
MEANINGS = {
    Status.KEPT: "It was faster at the level of its race, with parity.",
    Status.NOT_FASTER: (
        "The interval excludes the smallest effect worth having (`--min-effect`); the reason is "
        '"slower" where it shows that.'
    ),
    Status.SAME: "The interval lies within 5 % of 1, but does not exclude that smallest effect.",
    Status.INCONCLUSIVE: (
        "The race showed none of these; the report says about how much more time would settle it, "
        "or that it takes a calmer machine."
    ),
    Status.LOAD_DEPENDENT: (
        "It was faster while other programs used the cores, also by fresh pairs; it may be a loss "
        "without them, so it is not written. `under load:` gives the command that uses it."
    ),
    Status.BROKE_PARITY: (
        "The losses or outputs differ by more than the rule of its numerics class allows, so that "
        "its speed does not count."
    ),
    NOT_CONFIRMED: "It was kept, but the race that repeated its gain did not show it.",
    Status.CRASHED: "The program failed with it.",
    Status.NOT_APPLICABLE: "It lacks what it needs, or found nothing to change in the script.",
    Status.NOT_ALLOWED: "It would change numerics or the training; `--allow` lets it run.",
    Status.NOT_RACED: "No time was left for it, or it could not have gained enough.",
    Status.SKIPPED: "It was not asked for (`--only`, `--skip`), or runs on request alone.",
}
"""What the verdict words of a tune mean, in a sentence each."""


@dataclass(frozen=True)
class Outcome:
    """One row of the table: a technique with the values raced, and why it was kept or not.

    `seconds_needed`: about how much more time an inconclusive row needs, infinite where no end is
    in sight. `load`: CPU cores that other programs used meanwhile.
    """

    technique: str
    status: Status
    reason: str = ""
    values: dict[str, object] = field(default_factory=dict)
    race: RaceResult | None = None
    parity: Parity | None = None
    joined: tuple[str, ...] = ()
    seconds_needed: float = 0.0
    load: float = 0.0

    @property
    def estimate(self) -> Estimate | None:
        """The ratio to report: of what won by fresh pairs, as those that made it win flatter it.

        Of all pairs where the fresh ones alone are too few to show that it is one.
        """
        if self.race is None:
            return None
        return reported(self.race.estimate, self.race.fresh, self.race.verdict)

    @property
    def unrepeated(self) -> bool:
        """Whether the pairs that were run after the verdict show no gain.

        They are few: that their interval has 1 in it says little beside that of all pairs.
        """
        fresh = self.race.fresh if self.race else None
        return fresh is not None and fresh.ratio <= 1.0

    def same_as(self, other: "Outcome") -> bool:
        """Whether both are of the same technique with the same values."""
        return (self.technique, self.values) == (other.technique, other.values)

    @property
    def is_open(self) -> bool:
        """Whether more time could settle it."""
        late = self.status is Status.NOT_RACED and self.reason.startswith((OUT_OF_TIME, ENDED))
        return late or self.status is Status.INCONCLUSIVE

    @property
    def pointless(self) -> bool:
        """Whether it was not raced because it could not have gained enough."""
        passed = self.status is Status.NOT_RACED and not self.is_open
        return passed and UNSEEN not in self.reason

    @property
    def out_of_reach(self) -> bool:
        """Whether it takes a calmer machine to settle it, rather than more time."""
        raced = self.race is not None and self.race.estimate.pairs >= FEWEST_PAIRS
        return self.is_open and raced and self.seconds_needed > SENSIBLE_SECONDS

    @property
    def standing(self) -> str:
        """The status to print."""
        return standing(self.status, self.race.verdict if self.race else None)

    def kept(self) -> Kept:
        """The row as the recipe stores it."""
        e = self.estimate
        assert e is not None
        assert self.race is not None
        assert self.parity is not None
        return Kept(self.values, e.ratio, (e.low, e.high), self.race.memory, self.parity.rule)


def is_raced(status: str, *, timed: bool) -> bool:
    """Whether a row was raced, or failed when it was to be; the others are left out."""
    return timed or status in {Status.CRASHED, Status.INCONCLUSIVE}


def reported(whole: Estimate, fresh: Estimate | None, verdict: str | None) -> Estimate:
    """The ratio to report of all pairs and those fresh ones that did not decide the race."""
    if fresh is None or not math.isfinite(fresh.high):
        return whole
    faster, slower = verdict == Verdict.FASTER, verdict == Verdict.SLOWER
    return whole if (faster and fresh.low <= 1.0) or (slower and fresh.high >= 1.0) else fresh


def standing(status: str, verdict: str | None) -> str:
    """The status to print: what was kept, and a final race did not confirm, is not "kept"."""
    kept = status == Status.KEPT and verdict is not None
    return NOT_CONFIRMED if kept and verdict != Verdict.FASTER else str(status)


@dataclass(frozen=True)
class UpperBound:
    """A race that bounds what a whole group of techniques can give.

    `reason`: why there is no estimate, where there is none.
    """

    name: str
    title: str
    estimate: Estimate | None
    reason: str = ""

    @property
    def most(self) -> float:
        """The largest ratio that it leaves possible; a race of few pairs bounds nothing."""
        known = self.estimate
        return math.inf if known is None or known.pairs < FEWEST_PAIRS else max(known.high, 1.0)


@dataclass(frozen=True)
class Advice:
    """What is the user's to do: what it would bring, where, what to type, what to mind.

    `expected`: the part of a step that it can be expected to take away; `share`: the part that it
    was measured to cost (0: not measured); `most`: the bound that follows.
    """

    technique: str
    says: str
    place: str
    expected: float = 0.0
    share: float = 0.0
    most: float = 1.0
    lines: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProcessTimes:
    """A process: when it was launched, ready to race (None: never) and ended, and its turns.

    Moments are seconds since the tune began; `raced` are the seconds of its blocks.
    """

    techniques: tuple[str, ...]
    launched: float
    ready: float | None
    ended: float
    raced: float


@dataclass(frozen=True)
class TimeUse:
    """Where the seconds of a tune went; together they are all of it.

    `starting`: waiting for processes to start and to settle. `racing`: pairs of blocks. `other`:
    ending processes, and what else there was between.
    """

    profiling: float = 0.0
    starting: float = 0.0
    racing: float = 0.0
    other: float = 0.0
    processes: tuple[ProcessTimes, ...] = ()

    @property
    def unraced(self) -> int:
        """Processes that ran no block of a race."""
        return sum(not process.raced for process in self.processes)


@dataclass
class TuneResult:
    """Everything a tune learned; partial when it was interrupted.

    `profile` is the probe's payload. `deterministic`: whether the plain script repeats itself, as
    far as it was run again: `repeated_steps`. `needed`: the budget (seconds) of another tune, of
    the open rows `settles` alone, 0 where none can be settled in a sensible time. `failed`: what
    ended the final race, if something did. `losses`: of each step of the final race, by side.
    `time_use`: what its seconds went to. `load`: CPU cores that other programs used on average.
    `isolation`: the trials' tier. `asleep`: in the profile OpenMP threads slept while they waited,
    though the user's would spin. `base`: what was on in every race of a candidate, from the recipe
    `base_recipe`.
    """

    command: tuple[str, ...]
    budget: float = 0.0
    profile: ProfilePayload | None = None
    noise_floor: RaceResult | None = None
    deterministic: bool | None = None
    repeated_steps: int = 0
    upper_bounds: list[UpperBound] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    final: RaceResult | None = None
    final_parity: Parity | None = None
    failed: str = ""
    interrupted: bool = False
    seconds: float = 0.0
    time_use: TimeUse = field(default_factory=TimeUse)
    needed: float = 0.0
    settles: list[str] = field(default_factory=list)
    load: float = 0.0
    isolation: str = ""
    notes: list[str] = field(default_factory=list)
    asleep: bool = False
    advice: list[Advice] = field(default_factory=list)
    chosen: dict[str, dict[str, object]] = field(default_factory=dict)
    losses: dict[str, Losses] = field(default_factory=dict)
    base: dict[str, Kept] = field(default_factory=dict)
    base_recipe: str = ""

    def record(self, row: Outcome) -> None:
        """Add a row, or replace that of the same technique with the same values.

        What was raced again goes to the end, below what it was raced on top of; what was kept stays
        in its place, for the rows below it were raced on top of it.
        """
        for index, old in enumerate(self.outcomes):
            if old.same_as(row):
                if old.status is Status.KEPT:
                    self.outcomes[index] = row
                    return
                del self.outcomes[index]
                break
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
        return [row for row in self.outcomes if is_raced(row.status, timed=row.race is not None)]

    @property
    def noisy(self) -> bool:
        """Whether the A/A test shows that small gains cannot be seen on this machine now."""
        found = self.noise_floor.estimate if self.noise_floor else None
        return found is not None and found.pairs >= FEWEST_PAIRS and found.high > NOISY * found.low

    @property
    def timed(self) -> bool:
        """Whether any race came to a figure."""
        return any(row.race for row in self.outcomes)

    @property
    def broke_parity(self) -> bool:
        """Whether the final race showed that the whole recipe changes the training."""
        return self.final_parity is not None and not self.final_parity.kept

    @property
    def confirmed(self) -> bool:
        """Whether the whole recipe was raced, kept parity, and was faster than the script."""
        if self.final is None or self.final_parity is None:
            return False
        return self.final_parity.kept and self.final.verdict is Verdict.FASTER


def by_hand(findings: Iterable[Finding], result: TuneResult, *, packed: bool) -> Iterator[Advice]:
    """The problems that no race of this tune has judged, or could with more time.

    Nor those that are none beside what was kept. Of each the remedy that can be expected to give
    most, and those whose own lines were measured to cost `FURTHER`. `packed`: a packed copy is
    advised.
    """
    rows = {row.technique: row for row in result.outcomes}
    for finding in findings:
        names = {remedy.id for remedy in finding.remedies}
        left = [r for r in finding.remedies if not _judged(r, rows.get(r.id))]
        known = packed and "packed_dataset" in names
        if finding.problem and left and not known and _remains(finding, names, result):
            first = max(left, key=lambda remedy: remedy.expected)
            more = (r for r in left if r is not first and r.share >= FURTHER)
            yield from (_advice_of(remedy, finding) for remedy in (first, *more))


def _judged(remedy: Remedy, row: Outcome | None) -> bool:
    """Whether a race has judged a remedy, or could, or the profile showed that none need to.

    A technique that is pointless for its own phases may still be named for a line of another one.
    """
    if row is None or remedy.id == "packed_dataset":
        return remedy.id == "packed_dataset"
    symptom = technique(row.technique).symptom
    here = symptom is None or set(remedy.phases) <= set(symptom.phases)
    crashed = row.status is Status.CRASHED
    return bool(row.race or crashed or row.is_open or (row.pointless and here))


def _remains(finding: Finding, names: Collection[str], result: TuneResult) -> bool:
    """Whether what was kept leaves a part of the finding's time that is worth a word.

    What was kept is taken to have shortened nothing else.
    """
    ratio = math.prod(
        row.estimate.ratio for row in result.kept if row.estimate and row.technique in names
    )
    left = 1.0 / max(ratio, 1.0) - (1.0 - finding.share)
    return ratio <= 1.0 or left * ratio >= FURTHER


def _advice_of(remedy: Remedy, finding: Finding) -> Advice:
    """The remedy with the cost of its own lines, where it was measured; else its finding's.

    Where its finding costs more than its lines, or none of the lines stands out, that is said.
    """
    says = f"{remedy.says}; {finding.spread}" if finding.spread else remedy.says
    if remedy.share and finding.share - remedy.share >= FURTHER:
        whole = finding.what.partition(";")[0]
        says = f"that is of its own lines ({whole}); {says}"
    places = dict.fromkeys((remedy.place or finding.place, *remedy.also))
    return Advice(
        remedy.id,
        says,
        ", ".join([place for place in places if place][:NAMED_PLACES]),
        remedy.expected,
        remedy.share or finding.share,
        remedy.most if remedy.share else finding.most,
        remedy.lines,
        remedy.notes,
    )


CEILING = "data_free"


def write_recipe(result: TuneResult, path: Path, machine: Machine) -> Path | None:
    """Write what was kept; return the file, None when nothing was kept or it cannot be written.

    A note says why it cannot: what was measured is still to be shown. `path` only ever holds a
    recipe that was confirmed as a whole; another is written beside it.
    """
    beside = unconfirmed(path)
    if not result.kept:
        return None
    target = path if result.confirmed else beside
    try:
        recipe_of(result, machine).write(target)
        if result.confirmed:
            beside.unlink(missing_ok=True)
    except OSError as error:
        result.notes.append(f"{target} cannot be written: {error.strerror}")
        return None
    return target


def recipe_of(result: TuneResult, machine: Machine) -> Recipe:
    """The recipe of a tune: what was kept, and what the whole of it measured."""
    rows = result.base | {row.technique: row.kept() for row in result.kept}
    kept = {name: rows.get(name, Kept(values)) for name, values in result.chosen.items()}
    return Recipe(kept, _measured(result, machine))


def _measured(result: TuneResult, machine: Machine) -> Measured:
    script, script_hash = script_of(result.command)
    program, final = _program(result.profile), result.final
    return Measured(
        command=shown(result.command),
        ratio=final.estimate.ratio if final else 1.0,
        interval=(final.estimate.low, final.estimate.high) if final else (1.0, 1.0),
        pairs=final.estimate.pairs if final else 0,
        parity=result.final_parity.reason if result.final_parity else "",
        confirmed=result.confirmed,
        load=round(result.load, 2),
        date=datetime.date.today().isoformat(),
        torch=torch_version(),
        machine=machine.summary(),
        fingerprint=machine.fingerprint,
        isolation=result.isolation,
        script=script,
        script_hash=script_hash,
        program=program,
        program_hash=hash_of(Path(program)) if program else "",
        note=next((note for note in result.notes if note in {LIVE_FINAL, RACE_STANDS}), ""),
        threads="sleeping" if final and final.passive_wait else "",
    )


def _program(profile: ProfilePayload | None) -> str:
    """The file that trains, from the working directory; empty where it lies elsewhere."""
    path, here = Path(profile.program if profile else ""), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) and path.is_file() else ""


def advice(
    findings: Iterable[Finding], payload: ProfilePayload | None, result: TuneResult, folder: Path
) -> list[Advice]:
    """What is left to the user, the largest expected gain first.

    A packed copy of the dataset is among it where it would bring more than what was kept. Its ratio
    is bounded by the upper-bound race with zero data-loading time, if it was run.
    """
    packed = _packed(payload, result, folder)
    found = [*packed, *by_hand(findings, result, packed=bool(packed))]
    return sorted(found, key=lambda one: one.expected, reverse=True)


def _packed(payload: ProfilePayload | None, result: TuneResult, folder: Path) -> list[Advice]:
    made = proposal(payload, folder) if payload else None
    if made is None:
        return []
    bound = _bound(result)
    made = replace(
        made,
        expected=min(made.expected, bound),
        least=min(made.least, bound),
        most=min(made.most, bound),
    )
    if made.least < WORTH or made.expected < WORTH * _kept(result):
        return []
    gain = LESS_TRANSFORMS if made.simpler else made.says
    says = f"{gain}. Measured against the plain script: {made.evidence}{made.further}"
    saved = 1.0 - 1.0 / made.expected
    most = made.expected if made.simpler else made.most
    bounds = 1.0 - 1.0 / most, NO_BOUND if shared(result.load) else most
    return [Advice("packed_dataset", says, made.place, saved, *bounds, made.lines, made.notes)]


def _bound(result: TuneResult) -> float:
    return min((b.most for b in result.upper_bounds if b.name == CEILING), default=math.inf)


def _kept(result: TuneResult) -> float:
    """The ratio of the whole recipe, or of its parts where it was not raced as a whole."""
    if result.final is not None:
        return max(1.0, result.final.estimate.ratio)
    ratio = 1.0
    for row in result.kept:
        ratio *= row.estimate.ratio if row.estimate else 1.0
    return max(1.0, ratio)
