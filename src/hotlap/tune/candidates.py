"""Which techniques apply to a script, in which order, and with which values."""

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hotlap.core.errors import UsageError
from hotlap.core.machine import Machine
from hotlap.core.numerics import Numerics
from hotlap.core.registry import technique, techniques
from hotlap.core.technique import How, Technique
from hotlap.tune.result import Outcome, Status

Values = dict[str, Any]
Chosen = dict[str, Values]


@dataclass(frozen=True)
class Wanted:
    """What the user allows and asks for."""

    allow: Collection[Numerics]
    only: Collection[str] = ()
    skip: Collection[str] = ()
    requested: Collection[str] = ()


@dataclass
class Script:
    """What is known of the script: facts from its profile, and its shares as techniques are kept.

    `shares` maps the phases of a step, and its page faults (`faults`), to their part of its time.
    """

    facts: dict[str, object]
    shares: dict[str, float]
    ceilings: dict[str, float] = field(default_factory=dict)

    def share(self, record: Technique) -> float:
        """The part of a step that the technique's phases take."""
        return sum(self.shares.get(phase, 0.0) for phase in phases_of(record))

    def bound(self, record: Technique) -> float:
        """The largest ratio that shortening the technique's phases can give (Amdahl)."""
        symptom = record.symptom
        if symptom is None:
            return 1.0
        share = symptom.gives * self.share(record)
        limit = min((self.ceilings[p] for p in symptom.phases if p in self.ceilings), default=1e9)
        return min(1.0 / max(1e-3, 1.0 - share), limit)

    def promise(self, record: Technique) -> float:
        """The part of a step it can be expected to take away; nothing known: all of it."""
        symptom = record.symptom
        if symptom is None:
            return 1.0
        return symptom.expected * self.share(record)

    def keep(self, records: Sequence[Technique], ratio: float) -> None:
        """Techniques were kept: their phases shrank by what they gave, the others' shares grow."""
        for record in records:
            self.facts.update(record.grants)
        mine = {phase for record in records for phase in phases_of(record)}
        held = sum(self.shares.get(phase, 0.0) for phase in mine)
        total = 1.0 / max(ratio, 1.0)
        left = max(0.0, held - (1.0 - total))
        for phase in self.shares:
            shrink = left / held if phase in mine and held else 1.0
            self.shares[phase] *= shrink / total


def phases_of(record: Technique) -> tuple[str, ...]:
    """The phases of a step that a technique can shorten."""
    return record.symptom.phases if record.symptom else ()


def sift(script: Script, wanted: Wanted) -> tuple[list[Technique], list[Outcome]]:
    """Part the catalogue's movable techniques into those to race and rows that say why not."""
    todo, rows = [], []
    for record in techniques().values():
        if How.MOVE not in record.how:
            continue
        row = _refusal(record, script, wanted)
        if row is None:
            todo.append(record)
        else:
            rows.append(row)
    return todo, rows


def _refusal(record: Technique, script: Script, wanted: Wanted) -> Outcome | None:
    name = record.id
    asked = name in wanted.only or name in wanted.requested
    if name in wanted.skip or (wanted.only and not asked):
        return Outcome(name, Status.SKIPPED, "not asked for")
    if record.numerics not in wanted.allow:
        reason = f"{record.numerics} numerics; --allow {record.numerics} lets it run"
        return Outcome(name, Status.NOT_ALLOWED, reason)
    if record.on_request and not asked:
        return Outcome(name, Status.SKIPPED, "on request: --fit-memory or --only")
    missing = record.missing(joined_facts(record, script.facts))
    return Outcome(name, Status.NOT_APPLICABLE, missing) if missing else None


def joined_facts(record: Technique, facts: Mapping[str, object]) -> dict[str, object]:
    """The facts as they would be with the techniques that this one is raced together with."""
    known, merged = techniques(), dict(facts)
    for name in record.joins:
        if not known[name].missing(merged):
            merged.update(known[name].grants)
    return merged


def values_of(record: Technique, machine: Machine) -> list[Values]:
    """Every combination of the values that the technique's choices can take here."""
    named = {choice.name: choice.on(machine) for choice in record.choices}
    return [dict(zip(named, combo, strict=True)) for combo in itertools.product(*named.values())]


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
