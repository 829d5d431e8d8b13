"""From phases, facts and places to findings, the most valuable first.

Remedies that shorten the same part of a step make one finding: its headline is what was measured,
and each remedy says what it would change, where, and the most it could give.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hotlap.core.registry import techniques
from hotlap.core.technique import Need, Symptom
from hotlap.profile.advice import ADVICE
from hotlap.profile.model import DATA, Finding, Line, Remedy, shares_of

WORTH = 1.02
PARTS = {
    "data": "waiting for data",
    "copy": "copying and converting tensors",
    "compute": "forward and backward",
    "float64": "copying to and computing in float64",
    "optimizer": "the optimizer",
    "evaluation": "evaluation",
    "saving": "writing files",
    "rest": "code between the phases",
}


@dataclass(frozen=True)
class Seen:
    """What the findings are made from; `lines` by phase."""

    facts: Mapping[str, Any]
    places: Mapping[str, str]
    shares: Mapping[str, float]
    lines: Mapping[str, tuple[Line, ...]]
    step: float

    def share(self, phases: Iterable[str]) -> float:
        """The phases' part of a step."""
        return sum(self.shares.get(phase, 0.0) for phase in phases)

    def hottest(self, phases: Iterable[str]) -> Line | None:
        """The user's line that most of the phases' samples fell on."""
        names = [n for phase in phases for n in (DATA if phase == "data" else (phase,))]
        weights = {n: self.lines[n] for n in names if self.lines.get(n)}
        found = [line for lines in weights.values() for line in lines[:1]]
        return max(found, key=lambda line: line.share, default=None)


def findings(payload: Mapping[str, Any], lines: Mapping[str, tuple[Line, ...]]) -> list[Finding]:
    """Every finding worth at least 2 %."""
    seen = Seen(
        payload["facts"],
        payload["places"],
        shares_of(payload),
        lines,
        payload["step"]["mean"],
    )
    parts: dict[str, list[Remedy]] = {}
    for name, symptom, least in _candidates(seen):
        remedy = _remedy(name, symptom, seen)
        if remedy.most >= WORTH and seen.share(symptom.phases) >= least:
            parts.setdefault(_part(symptom), []).append(remedy)
    found = [_finding(part, remedies, seen) for part, remedies in parts.items()]
    return sorted(found, key=lambda finding: finding.expected, reverse=True)


def _candidates(seen: Seen) -> Iterable[tuple[str, Symptom, float]]:
    for technique in techniques().values():
        if technique.symptom and _hold(technique.needs, seen) and not technique.on_request:
            yield technique.id, technique.symptom, 0.0
    for advice in ADVICE:
        if _hold(advice.needs, seen):
            yield advice.id, advice.symptom, advice.least


def _hold(needs: Iterable[Need], seen: Seen) -> bool:
    return all(need.holds(dict(seen.facts)) for need in needs)


def _part(symptom: Symptom) -> str:
    if symptom.place == "float64":
        return "float64"
    if {"forward", "backward"} <= set(symptom.phases):
        return "compute"
    return symptom.phases[0]


def _remedy(name: str, symptom: Symptom, seen: Seen) -> Remedy:
    place = seen.places.get(symptom.place, "")
    share = _line_share(place, symptom, seen) if symptom.by_line else seen.share(symptom.phases)
    most = 1.0 / max(1e-3, 1.0 - symptom.gives * share)
    return Remedy(name, symptom.says, symptom.phases, place, most, symptom.expected * share)


def _line_share(place: str, symptom: Symptom, seen: Seen) -> float:
    """The part of a step that was sampled on one line."""
    return sum(
        seen.shares.get(phase, 0.0) * line.share
        for phase in symptom.phases
        for line in seen.lines.get(phase, ())
        if line.place == place
    )


def _finding(part: str, remedies: list[Remedy], seen: Seen) -> Finding:
    remedies.sort(key=lambda remedy: remedy.expected, reverse=True)
    phases = ("forward", "backward") if part == "compute" else remedies[0].phases
    share = seen.share(phases)
    line = seen.hottest(phases)
    place, text = _where(part, remedies, line, seen)
    what = f"{PARTS.get(part, part)}: {share:.0%} of a step, {share * seen.step * 1e3:.3g} ms"
    most = max(remedy.most for remedy in remedies)
    also = tuple(sorted({remedy.place for remedy in remedies} - {place, ""}))
    return Finding(what, place, text, share, most, tuple(remedies), also)


def _where(part: str, remedies: list[Remedy], line: Line | None, seen: Seen) -> tuple[str, str]:
    """Data and the rest are pointed at by their hottest line, all else by the remedy's place."""
    place = next((remedy.place for remedy in remedies if remedy.place), "")
    if line is not None and (part in {"data", "rest"} or not place):
        return line.place, line.text
    if part == "compute":
        place = seen.places.get("model", place)
    return place, ""
