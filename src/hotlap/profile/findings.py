"""From phases, facts and places to findings, the most valuable first.

Remedies that shorten the same part of a step make one finding: its headline is what was measured,
and each remedy says what it would change, where, and the most it could give.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hotlap.core.registry import techniques
from hotlap.core.technique import Need, Symptom
from hotlap.profile.advice import ADVICE
from hotlap.profile.model import DATA, Finding, Line, Remedy, headline, shares_of

WORTH = 1.02
PHASES_OF_THEIR_OWN = ("step", "backward", "zero_grad")
"""Places whose samples between the phases are the way in and out of the phases, not work."""
OVERHEAD = {"loader_workers": 0.5e-3}
"""Seconds that a remedy itself costs a step: a worker's batch goes through pickle, a queue and
shared memory, so that workers cannot shorten a wait of less."""
PARTS = {
    "data": "waiting for data",
    "copy": "copying and converting tensors",
    "compute": "forward and backward",
    "float64": "copying to and computing in float64",
    "optimizer": "the optimizer",
    "evaluation": "evaluation",
    "saving": "writing files",
    "rest": "code between the phases",
    "faults": "page faults",
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


def seen_in(payload: Mapping[str, Any], lines: Mapping[str, tuple[Line, ...]]) -> Seen:
    """What a payload of the probe holds to make findings from."""
    step = payload["step"]["mean"]
    return Seen(payload["facts"], payload["places"], shares_of(payload), lines, step)


def proposed(seen: Seen) -> list[Finding]:
    """What the techniques' symptoms say; each worth at least 2 %."""
    return _found(
        [
            (record.id, record.symptom, 0.0)
            for record in techniques().values()
            if record.symptom and _hold(record.needs, seen) and not record.on_request
        ],
        seen,
    )


def advised(seen: Seen, explained: Mapping[str, float], places: frozenset[str]) -> list[Finding]:
    """What no technique changes, in the part of the step that nothing else explains.

    `explained`: seconds a step by phase that have findings already, `places`: their lines.
    """
    shares = {
        phase: max(0.0, share - explained.get(phase, 0.0) / seen.step if seen.step else 0.0)
        for phase, share in seen.shares.items()
    }
    taken = places | {seen.places.get(kind, "") for kind in PHASES_OF_THEIR_OWN}
    lines = {
        phase: tuple(line for line in found if line.place not in taken)
        for phase, found in seen.lines.items()
    }
    left = replace(seen, shares=shares, lines=lines)
    return _found(
        [(one.id, one.symptom, one.least) for one in ADVICE if _hold(one.needs, left)], left
    )


def _found(candidates: Iterable[tuple[str, Symptom, float]], seen: Seen) -> list[Finding]:
    parts: dict[str, list[Remedy]] = {}
    for name, symptom, least in candidates:
        remedy = _remedy(name, symptom, seen)
        nowhere = not remedy.place and seen.hottest(symptom.phases) is None
        if remedy.most >= WORTH and seen.share(symptom.phases) >= least and not nowhere:
            parts.setdefault(_part(symptom, remedy, seen), []).append(remedy)
    return [_finding(part, remedies, seen) for part, remedies in parts.items()]


def _hold(needs: Iterable[Need], seen: Seen) -> bool:
    return all(need.holds(dict(seen.facts)) for need in needs)


def _part(symptom: Symptom, remedy: Remedy, seen: Seen) -> str:
    if symptom.place == "float64":
        return "float64"
    if {"forward", "backward"} <= set(symptom.phases):
        return "compute"
    if symptom.by_line:
        return max(symptom.phases, key=lambda phase: _line_share(remedy.place, (phase,), seen))
    return symptom.phases[0]


def _remedy(name: str, symptom: Symptom, seen: Seen) -> Remedy:
    place = seen.places.get(symptom.place, "")
    by_line = symptom.by_line
    share = _line_share(place, symptom.phases, seen) if by_line else seen.share(symptom.phases)
    if seen.step:
        share = max(0.0, share - OVERHEAD.get(name, 0.0) / seen.step)
    gives = symptom.line_gives if by_line and symptom.line_gives else symptom.gives
    saved = min(gives * share, seen.share(symptom.phases))
    most = 1.0 / max(1e-3, 1.0 - saved)
    expected = saved * symptom.expected / symptom.gives
    return Remedy(name, symptom.says, symptom.phases, place, most, expected)


def _line_share(place: str, phases: Iterable[str], seen: Seen) -> float:
    """The part of a step that was sampled on one line."""
    return sum(
        seen.shares.get(phase, 0.0) * line.share
        for phase in phases
        for line in seen.lines.get(phase, ())
        if line.place == place
    )


def _finding(part: str, remedies: list[Remedy], seen: Seen) -> Finding:
    remedies.sort(key=lambda remedy: remedy.expected, reverse=True)
    several = {"compute": ("forward", "backward"), "float64": remedies[0].phases}
    phases = several.get(part, (part,))
    share = seen.share(phases)
    line = seen.hottest(phases)
    place, text = _where(part, remedies, line, seen)
    what = headline(PARTS.get(part, part), share, seen.step)
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
    return place, ""  # the line itself is read once all findings are there
