"""Which techniques apply to a script, in which order, and with which values."""

import itertools
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from hotlap.core import choices
from hotlap.core.machine import Machine
from hotlap.core.move import Choice
from hotlap.core.numerics import Numerics
from hotlap.core.registry import techniques
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

    `shares` maps the phases of a step to their part of its time.
    """

    facts: dict[str, object]
    shares: dict[str, float]
    ceilings: dict[str, float] = field(default_factory=dict)

    def bound(self, technique: Technique) -> float:
        """The largest ratio that shortening the technique's phases can give (Amdahl)."""
        symptom = technique.symptom
        if symptom is None:
            return 1.0
        share = symptom.gives * sum(self.shares.get(phase, 0.0) for phase in symptom.phases)
        limit = min((self.ceilings[p] for p in symptom.phases if p in self.ceilings), default=1e9)
        return min(1.0 / max(1e-3, 1.0 - share), limit)

    def promise(self, technique: Technique) -> float:
        """The part of a step it can be expected to take away; nothing known: all of it."""
        symptom = technique.symptom
        if symptom is None:
            return 1.0
        return symptom.expected * sum(self.shares.get(phase, 0.0) for phase in symptom.phases)

    def keep(self, technique: Technique, ratio: float) -> None:
        """A technique was kept: its phases shrank by what it gave, the others' shares grow."""
        self.facts.update(technique.grants)
        symptom = technique.symptom
        mine = symptom.phases if symptom else ()
        held = sum(self.shares.get(phase, 0.0) for phase in mine)
        total = 1.0 / max(ratio, 1.0)
        left = max(0.0, held - (1.0 - total))
        for phase in self.shares:
            shrink = left / held if phase in mine and held else 1.0
            self.shares[phase] *= shrink / total


def sift(script: Script, wanted: Wanted) -> tuple[list[Technique], list[Outcome]]:
    """Part the catalogue's movable techniques into those to race and rows that say why not."""
    todo, rows = [], []
    for technique in techniques().values():
        if How.MOVE not in technique.how:
            continue
        row = _refusal(technique, script, wanted)
        if row is None:
            todo.append(technique)
        else:
            rows.append(row)
    return todo, rows


def _refusal(technique: Technique, script: Script, wanted: Wanted) -> Outcome | None:
    name = technique.id
    asked = name in wanted.only or name in wanted.requested
    if name in wanted.skip or (wanted.only and not asked):
        return Outcome(name, Status.SKIPPED, "not asked for")
    if technique.numerics not in wanted.allow:
        reason = f"{technique.numerics} numerics; --allow {technique.numerics} lets it run"
        return Outcome(name, Status.NOT_ALLOWED, reason)
    if technique.on_request and not asked:
        return Outcome(name, Status.SKIPPED, "on request: --fit-memory or --only")
    missing = technique.missing(joined_facts(technique, script.facts))
    return Outcome(name, Status.NOT_APPLICABLE, missing) if missing else None


def joined_facts(technique: Technique, facts: Mapping[str, object]) -> dict[str, object]:
    """The facts as they would be with the techniques that this one is raced together with."""
    known, merged = techniques(), dict(facts)
    for name in technique.joins:
        if not known[name].missing(merged):
            merged.update(known[name].grants)
    return merged


def values_of(technique: Technique, machine: Machine) -> list[Values]:
    """Every combination of the values that the technique's choices can take here."""
    named = {choice.name: _candidates(choice, machine) for choice in technique.choices}
    return [dict(zip(named, combo, strict=True)) for combo in itertools.product(*named.values())]


def _candidates(choice: Choice, machine: Machine) -> tuple[Any, ...]:
    if isinstance(choice.values, str):
        found: tuple[Any, ...] = getattr(choices, choice.values)(machine)
        return found
    return choice.values
