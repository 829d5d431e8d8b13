"""Which techniques apply to a script, with which values, and which is worth racing next."""

import itertools
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hotlap.core.errors import UsageError
from hotlap.core.machine import Machine
from hotlap.core.move import Keyword, Wrap
from hotlap.core.protocol import ProfilePayload, SampledLine
from hotlap.core.registry import technique, techniques
from hotlap.core.technique import How, Numerics, Symptom, Technique
from hotlap.profile.model import (
    acted_on,
    bound,
    communicated_shares,
    line_share,
    most_saved,
    shares_of,
    starved_shares,
    usual_times,
)
from hotlap.trial.side import short_epoch
from hotlap.tune.result import UNSEEN, Outcome, Status

Values = dict[str, object]
Chosen = dict[str, Values]

REPLACING_MIN_GAIN = 0.1
"""Gain a technique must be able to give to be raced against one that is kept and excludes it."""
IN_EVERY_STEP = frozenset(
    {"forward", "backward", "optimizer", "copy", "buffers", "faults", "lookups", "long_kernels"}
)
"""Phases that every step has; loaders start, models are evaluated and files saved once an epoch."""
EVALUATING = frozenset({"evaluation", "evaluation_data"})
UNKNOWN_GAIN = 0.3
"""Share of a step that a technique without a symptom is taken to save when the order is chosen."""
UNDERESTIMATED, CHANCE = 1.2, 0.02
"""A technique that saves more than so many times the share of its phases, and a little, shows that
the profile took them for too small: it ran at another load, or with threads that spin."""


@dataclass(frozen=True)
class Wanted:
    """What the user allows and asks for."""

    allow: Collection[Numerics]
    only: Collection[str] = ()
    skip: Collection[str] = ()
    requested: Collection[str] = ()

    def asks_for(self, name: str) -> bool:
        """Whether the user named it."""
        return name in self.only or name in self.requested


@dataclass(frozen=True)
class Candidate:
    """A technique with one combination of its values."""

    record: Technique
    values: Values

    @property
    def name(self) -> str:
        """The technique's id."""
        return self.record.id

    @property
    def key(self) -> str:
        """Names it with its values."""
        return f"{self.name} {sorted(self.values.items())}"

    @property
    def compiles(self) -> bool:
        """Whether its first steps include a compilation."""
        return dict(self.record.grants).get("compiled") is True

    @property
    def fills(self) -> bool:
        """Whether an epoch has to pass before it acts in full."""
        return self.record.whole_epochs

    @property
    def plain_steps(self) -> bool:
        """Whether it acts in every step, rather than on what an epoch has once."""
        return in_every_step(self.record)


@dataclass
class ScriptProfile:
    """What is known of the script: facts from its profile, and its shares as techniques are kept.

    `shares` maps the phases of a step, and its page faults (`faults`), to their part of its time.
    `bounds` maps phases to the largest ratio that a race showed for them. `step`: its seconds.
    `world`: the ranks that train together. `starved`: the parts of a step in which a GPU waits for
    the host, by phase; `communicated`: those in which ranks wait for data that is on its way.
    `places`: where symptoms were seen; `lines`: what was sampled, by phase.
    """

    facts: dict[str, object]
    shares: dict[str, float]
    bounds: dict[str, float] = field(default_factory=dict)
    step: float = 0.0
    world: int = 1
    starved: dict[str, float] | None = None
    communicated: dict[str, float] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)
    lines: Mapping[str, Sequence[SampledLine]] = field(default_factory=dict)

    @classmethod
    def of(cls, payload: ProfilePayload) -> "ScriptProfile":
        """From what the probe sent."""
        step = usual_times(payload)[1]
        facts, shares, starved = dict(payload.facts), shares_of(payload), starved_shares(payload)
        return cls(
            facts, shares, step=step, world=payload.world, starved=starved,
            communicated=communicated_shares(payload), places=payload.places, lines=payload.lines,
        )  # fmt: skip

    def share(self, record: Technique) -> float:
        """The part of a step that the technique's phases take."""
        return sum(self.shares.get(phase, 0.0) for phase in phases_of(record))

    def bound(self, record: Technique) -> float:
        """The largest ratio that shortening the technique's phases can give."""
        symptom = record.symptom
        if symptom is None:
            return 1.0
        share = symptom.gives * self.share(record)
        limit = min((self.bounds[p] for p in symptom.phases if p in self.bounds), default=1e9)
        return min(bound(share, self.step), limit)

    def expected(self, candidate: Candidate) -> float:
        """The part of a step it can be expected to take away.

        Worker processes move work to other cores: a step keeps at least its share of one core.
        """
        symptom = candidate.record.symptom
        if symptom is None:
            return UNKNOWN_GAIN
        expected = self._saved(symptom) * symptom.where(self.facts).expected / symptom.gives
        if "num_workers" in candidate.values:
            expected = min(expected, 1.0 - 1.0 / (os.cpu_count() or 1))
        return expected

    def _saved(self, symptom: Symptom) -> float:
        """The part of a step that it may take away: of its line, where lines were sampled."""
        whole = acted_on(symptom, self.shares, self.starved, self.communicated)
        place = self.places.get(symptom.place)
        if not symptom.by_line or not place or not self.lines:
            return symptom.gives * whole
        return most_saved(
            symptom, line_share(place, symptom.phases, self.shares, self.lines), whole
        )

    def keep(self, records: Sequence[Technique], ratio: float) -> None:
        """Techniques were kept: their phases shrank by what they gave, the others' shares grow."""
        for record in records:
            self.facts.update(record.grants)
        self.bounds = {}  # they were measured on what was the best before
        mine = {phase for record in records for phase in phases_of(record)}
        held = sum(self.shares.get(phase, 0.0) for phase in mine)
        total = 1.0 / max(ratio, 1.0)
        given = 1.0 - total
        left = max(0.0, held - given)
        if given > UNDERESTIMATED * held + CHANCE:
            left = held * total  # what is left of it is not known: it keeps its share
        for parts in filter(None, (self.shares, self.starved, self.communicated)):
            for phase in parts:
                shrink = left / held if phase in mine and held else 1.0
                parts[phase] *= shrink / total
        self.step *= total


def phases_of(record: Technique) -> tuple[str, ...]:
    """The phases of a step that a technique can shorten."""
    return record.symptom.phases if record.symptom else ()


def in_every_step(record: Technique) -> bool:
    """Whether a technique acts in every step, rather than on what an epoch has once."""
    return not IN_EVERY_STEP.isdisjoint(phases_of(record))


@dataclass(frozen=True)
class Occasion:
    """What has to happen while a technique is raced for it to act: so many steps of a kind."""

    kind: str
    times: int
    lacking: str


def occasion(record: Technique) -> Occasion | None:
    """The rare event at which a technique acts; None where it acts in every step, or as made."""
    phases = frozenset(phases_of(record))
    wrapped = {move.boundary for move in record.moves if isinstance(move, Wrap)}
    if phases and phases <= EVALUATING:
        return Occasion("eval", 1, "no evaluation ran")
    if "save" in wrapped:
        return Occasion("save", 1, "no file was saved")
    if "loader" in wrapped and not in_every_step(record):
        return Occasion("epoch", 2, "no loader began a second time")
    return None


WATCHED_STEPS = 12
"""Steps after which what learns from the backward passes of a loop has taken hold, or will not:
four of a GAN suffice (hotlap.seam.unused_gradients)."""


def steps_to_act(record: Technique) -> int:
    """Steps of a process by which a technique acts, if it acts in every step at all."""
    learns = any(isinstance(m, Wrap) and m.boundary == "backward" for m in record.moves)
    return WATCHED_STEPS if learns else 0


def reads_ahead(names: Iterable[str], epoch_steps: int, *, workers: bool) -> bool:
    """Whether plain steps flatter these: loaders read ahead a good part of so short an epoch.

    What worker processes save in the steps they cost at the epoch's start, which plain steps leave
    out. `workers`: whether the script's loaders have any; none fills a queue without.
    """
    if not short_epoch(epoch_steps):
        return False
    return any(_fills_queues(technique(name), workers=workers) for name in names)


def _fills_queues(record: Technique, *, workers: bool) -> bool:
    """Whether a technique changes what the start of an epoch costs, where workers fill their queue.

    More or fewer workers do, also where they take cores from every step: a loader with more of them
    reads more batches in the step that plain steps leave out.
    """
    reads = workers and "data" in phases_of(record) and not in_every_step(record)
    return sets_workers(record) or reads


def sets_workers(record: Technique) -> bool:
    """Whether it sets how many worker processes a loader has."""
    return any(isinstance(m, Keyword) and m.name == "num_workers" for m in record.moves)


def spins(record: Technique) -> bool:
    """Whether it is for threads that spin while they wait."""
    return "contended_threads" in record.facts


def once_an_epoch(name: str) -> bool:
    """Whether it acts in evaluations or where a file is saved, which plain steps leave out."""
    needed = occasion(technique(name))
    return needed is not None and needed.kind != "epoch"


def left_out(names: Sequence[str], epoch_steps: int, *, workers: bool) -> bool:
    """Whether plain steps leave out what a technique (the first) does, or what these cost."""
    return once_an_epoch(names[0]) or reads_ahead(names, epoch_steps, workers=workers)


SET_ALREADY = "the script has the only value that there is to try"
NO_OTHER_FITS = "with any other value there would be more threads, over all ranks, than cores"


def candidates_for(
    script: ScriptProfile, wanted: Wanted, machine: Machine
) -> tuple[list[Candidate], list[Outcome]]:
    """Part the catalogue into candidates to race and rows that say why a technique is none."""
    found: list[Candidate] = []
    rows: list[Outcome] = []
    for record in techniques().values():
        if How.MOVE not in record.how:
            continue
        row = _refusal(record, script, wanted)
        if row is not None:
            rows.append(row)
            continue
        combinations = values_of(record, machine)
        others = [v for v in combinations if not v or not v.items() <= script.facts.items()]
        fitting = [v for v in others if not _crowded(v, script, machine)]
        found += [Candidate(record, v) for v in fitting]
        if combinations and not fitting:
            reason = NO_OTHER_FITS if others else SET_ALREADY
            rows.append(Outcome(record.id, Status.NOT_APPLICABLE, reason))
    return found, rows


def _crowded(values: Values, script: ScriptProfile, machine: Machine) -> bool:
    """Whether these are more threads, over all ranks, than there are cores."""
    threads = values.get("threads")
    if not isinstance(threads, int) or script.world < 2:
        return False
    return threads * script.world > machine.logical_cores


def _refusal(record: Technique, script: ScriptProfile, wanted: Wanted) -> Outcome | None:
    name = record.id
    if name in wanted.skip or (wanted.only and not wanted.asks_for(name)):
        return Outcome(name, Status.SKIPPED, "not asked for")
    missing = record.missing(joined_facts(record, script.facts))
    if missing and script.facts.get("inference") and not record.inference:
        return Outcome(name, Status.NOT_APPLICABLE, missing)
    if record.numerics not in wanted.allow:
        how = " --until TARGET" if record.numerics is Numerics.TRAINING else ""
        reason = f"{record.numerics} numerics; --allow {record.numerics}{how} lets it run"
        return Outcome(name, Status.NOT_ALLOWED, reason)
    if record.on_request and not wanted.asks_for(name):
        return Outcome(name, Status.SKIPPED, "on request: --fit-memory or --only")
    return _inapplicable(record, script, wanted, missing) if missing else None


def _inapplicable(
    record: Technique, script: ScriptProfile, wanted: Wanted, missing: str
) -> Outcome | None:
    """The row of a technique whose facts were not seen; None where it is raced all the same."""
    lacking = _unseen(record, script)
    if not lacking:
        return Outcome(record.id, Status.NOT_APPLICABLE, missing)
    if wanted.asks_for(record.id):
        return None
    reason = f"{lacking} {UNSEEN}; --only {record.id} races it"
    return Outcome(record.id, Status.NOT_RACED, reason)


def _unseen(record: Technique, script: ScriptProfile) -> str:
    """What did not happen in the profile, so that it cannot tell whether the technique applies."""
    needed = occasion(record)
    if needed is None or needed.kind == "epoch" or script.share(record):
        return ""
    seen = {need.fact: True for need in record.needs if not need.fact.startswith("!")}
    return "" if record.missing({**script.facts, **seen}) else needed.lacking


def pointless(
    candidate: Candidate, chosen: Chosen, script: ScriptProfile, wanted: Wanted, min_effect: float
) -> str:
    """Why nothing could come of a race with these techniques kept; empty if something could."""
    record = candidate.record
    if chosen.get(candidate.name) == candidate.values:
        return "already on, together with another"
    if conflict := _conflict(record, chosen):
        return conflict
    replaced = excluded(candidate, chosen)
    if record.symptom is None or (wanted.asks_for(candidate.name) and not replaced):
        return ""
    most = script.bound(record)
    if most >= 1.0 + (REPLACING_MIN_GAIN if replaced else min_effect):
        return ""
    kept = f"with {' and '.join(replaced)} kept, " if replaced else ""
    phases = [phase for phase in record.symptom.phases if phase in script.shares]
    return f"{kept}{' and '.join(phases or record.symptom.phases)} can give {most:.2f}x at most"


def _conflict(record: Technique, chosen: Iterable[str]) -> str:
    """A kept technique that it cannot join, and that it does not replace: of other phases."""
    for name in record.joins:
        if name not in chosen and (clash := _clashes(name, chosen)):
            return f"needs {name}, which conflicts with {clash[0]}, which is kept"
    for name in _clashes(record.id, chosen):
        if set(phases_of(record)).isdisjoint(phases_of(technique(name))):
            return f"conflicts with {name}, which is kept"
    return ""


def excluded(candidate: Candidate, chosen: Iterable[str]) -> list[str]:
    """The kept techniques that it would replace: they conflict, or are itself with other values."""
    same = [name for name in chosen if name == candidate.name]
    return same + _clashes(candidate.name, chosen)


def _clashes(name: str, chosen: Iterable[str]) -> list[str]:
    mine = technique(name).conflicts
    return [other for other in chosen if other in mine or name in technique(other).conflicts]


def joined_facts(record: Technique, facts: Mapping[str, object]) -> dict[str, object]:
    """The facts as they would be with the techniques that this one is raced together with."""
    known, merged = techniques(), dict(facts)
    for name in record.joins:
        if not known[name].missing(merged):
            merged.update(known[name].grants)
    return merged


def joined(record: Technique, chosen: Chosen, script: ScriptProfile, machine: Machine) -> Chosen:
    """The techniques it is raced together with, where the script lacks what they give."""
    return {
        name: values_of(technique(name), machine)[-1]
        for name in record.joins
        if name not in chosen and not technique(name).missing(script.facts)
    }


def values_of(record: Technique, machine: Machine) -> list[Values]:
    """Every combination of the values that the technique's choices can take here."""
    named = {choice.name: choice.on(machine) for choice in record.choices}
    return [dict(zip(named, combo, strict=True)) for combo in itertools.product(*named.values())]


def memory_savers() -> tuple[str, ...]:
    """The techniques that are switched on when memory runs out."""
    return tuple(t.id for t in techniques().values() if t.saves_memory and t.moves)


def known(names: tuple[str, ...]) -> tuple[str, ...]:
    """Check ids that the user gave.

    Raises:
        UsageError: one of them is no record, or one that only advises.
    """
    for name in names:
        if not technique(name).moves:
            hint = f"`hotlap explain {name}` says what to do"
            raise UsageError(f"{name} is advice: there is nothing to switch on", hint)
    return names
