"""The profile's own findings and the spots of lint, as one list in which no fact stands twice."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hotlap.core.registry import techniques
from hotlap.core.technique import Numerics
from hotlap.profile.join import ESTIMATE, Costed, covers, split
from hotlap.profile.model import DATA, NO_BOUND, Finding, Remedy, bound, headline
from hotlap.profile.sources import line_of, shown

FEEDING = {*DATA}
REPLACED = 0.3
"""The part of a computation's time that a better form of it can be expected to take away: it has
still to be computed."""


@dataclass(frozen=True)
class Merged:
    """Findings; and what the spots among them explain: seconds a step by phase, and places."""

    findings: tuple[Finding, ...]
    explained: Mapping[str, float] = field(default_factory=dict)
    places: frozenset[str] = frozenset()


def merged(own: Sequence[Finding], spots: Iterable[Costed], folder: Path) -> Merged:
    """Add the spots to the findings of the probe.

    A spot whose technique a finding proposes at the same place is that finding. One that costs
    time while data are awaited is a remedy of that wait. Other spots of one pattern make one
    finding, with their cost added up.
    """
    fresh = [spot for spot in spots if not spot.stale]
    found = [_with_causes(finding, fresh, folder) for finding in own]
    known = _apart([spot for spot in fresh if not _is_cause(own, spot)])
    apart: dict[str, list[Costed]] = {}
    for spot in known:
        if not _same(own, spot, folder):
            apart.setdefault(spot.spot.id, []).append(spot)
    for group in apart.values():
        _add(found, group, folder)
    explained: dict[str, float] = {}
    places: set[str] = set()
    for spot in known:
        if spot.worth:
            places |= {_place(spot, folder, line) for line in spot.spot.priced}
        for phase, seconds in spot.by_phase:
            name = "forward" if phase == "loss" else phase
            explained[name] = explained.get(name, 0.0) + seconds
    return Merged(tuple(_named_once(found)), explained, frozenset(places))


def _named_once(findings: Sequence[Finding]) -> Iterator[Finding]:
    """The findings; what a problem proposes is no option beside it."""
    proposed = {remedy.id for one in findings if one.problem for remedy in one.remedies}
    for one in findings:
        others = tuple(r for r in one.remedies if one.problem or r.id not in proposed)
        if others:
            yield replace(one, remedies=others)


def _is_cause(own: Sequence[Finding], spot: Costed) -> bool:
    """Whether a finding has measured what the spot's line leads to elsewhere."""
    ids = {remedy.id for finding in own for remedy in finding.remedies}
    return spot.spot.elsewhere and spot.spot.technique in ids


def _with_causes(finding: Finding, spots: Iterable[Costed], folder: Path) -> Finding:
    """The finding, its remedies with the lines that lead to what was measured."""
    causes = [spot for spot in spots if spot.spot.elsewhere]
    remedies = []
    for remedy in finding.remedies:
        places = (_place(s, folder, s.spot.line) for s in causes if s.spot.technique == remedy.id)
        remedies.append(replace(remedy, also=tuple(dict.fromkeys((*remedy.also, *places)))))
    return replace(finding, remedies=tuple(remedies))


def _apart(spots: list[Costed]) -> list[Costed]:
    """The spots, the costliest first; a line's time counts for the first that claims it.

    What was timed by itself is left out where it has lost its lines to another.
    """
    claimed: set[tuple[Path, int]] = set()
    found = []
    for spot in sorted(spots, key=lambda spot: spot.seconds, reverse=True):
        lines = {(spot.spot.path, line) for line in spot.spot.priced}
        found.append(_free(spot) if lines & claimed else spot)
        if spot.seconds:
            claimed |= lines
    return [s for s in found if s.seconds or not (s.spot.seconds or _beside(s, found))]


def _free(spot: Costed) -> Costed:
    """The spot, its lines' time being another's."""
    return replace(spot, seconds=0.0, by_phase=(), behind=0.0)


def _beside(spot: Costed, others: list[Costed]) -> bool:
    """Whether the same pattern has another spot, with a cost, on the same line."""
    one = spot.spot
    return any(
        other.seconds and (one.id, one.path, one.line) == (two.id, two.path, two.line)
        for other in others
        for two in (other.spot,)
    )


def _same(found: Sequence[Finding], spot: Costed, folder: Path) -> bool:
    """Whether a finding proposes the technique of a spot at the spot's place."""
    for finding in found:
        for remedy in finding.remedies:
            if remedy.id == spot.spot.technique and _at(
                remedy.place or finding.place, spot, folder
            ):
                return True
    return False


def _at(place: str, spot: Costed, folder: Path) -> bool:
    at = split(place, folder)
    return at is not None and at[0] == spot.spot.path.resolve() and covers(spot.spot, at[1])


def _add(found: list[Finding], group: list[Costed], folder: Path) -> None:
    """Put a pattern's spots where they belong: into the wait for data, or by themselves."""
    worth = [spot for spot in group if spot.worth]
    if worth and all(phase in FEEDING for spot in worth for phase, _ in spot.by_phase):
        for index, finding in enumerate(found):
            if finding.remedies[0].phases == ("data",):
                remedies = sorted(
                    (*finding.remedies, _remedy(worth, folder)),
                    key=lambda remedy: remedy.expected,
                    reverse=True,
                )
                found[index] = replace(finding, remedies=tuple(remedies))
                return
    found.append(_finding(group, folder))


def _finding(group: list[Costed], folder: Path) -> Finding:
    first = group[0]
    remedy = _remedy(group, folder)
    share = _share(group)
    says = f"{first.spot.says}{', which is part of this' if first.vague else ''}"
    what = headline(says, share, first.step) if share else first.spot.says
    share = remedy.share
    return Finding(
        f"{what}, {ESTIMATE}" if any(spot.estimated for spot in group) else what,
        remedy.place,
        line_of(first.spot.path, first.spot.line),
        share,
        remedy.most,
        (remedy,),
        remedy.also,
        first.spot.id,
        problem=_is_problem(first),
    )


def _is_problem(found: Costed) -> bool:
    """Whether a pattern is a fault that costs time or memory, not a choice for a race to judge.

    What changes the training is a choice, and so is another form of a computation that was not
    seen to cost anything.
    """
    record = techniques().get(found.spot.technique)
    costs = found.worth or found.confirmed
    if found.spot.hint and not costs:
        return False
    if record is None:
        return True
    if any(p.fault for p in record.patterns if p.id == found.spot.id):
        return costs or record.numerics is not Numerics.TRAINING
    sure = record.symptom is None or record.symptom.sure
    exact = record.numerics is Numerics.EXACT
    return sure and (exact or (found.worth and record.numerics is not Numerics.TRAINING))


def _remedy(group: list[Costed], folder: Path) -> Remedy:
    spot, share, vague = group[0].spot, _share(group), group[0].vague
    record = techniques().get(spot.technique)
    symptom = record.symptom if record else None
    replaced = (spot.differentiated and not spot.part) or spot.part_of
    usual = REPLACED if replaced else 1.0
    expected = (symptom.expected if symptom else usual) * share
    phases = tuple(phase for phase, _ in group[0].by_phase) or spot.phases
    places = [_place(entry, folder, entry.spot.line) for entry in group]
    # Without work that is differentiated, other lines' gradients and memory shrink as well.
    most = NO_BOUND if any(one.behind for one in group) else bound(share, group[0].step)
    return Remedy(
        spot.technique or spot.id,
        spot.remedy,
        phases,
        places[0],
        1.0 if vague else most,
        expected,
        tuple(places[1:]),
        share=0.0 if vague else share,
    )


def _share(group: list[Costed]) -> float:
    return min(1.0, sum(spot.share for spot in group))


def _place(spot: Costed, folder: Path, line: int) -> str:
    return f"{shown(spot.spot.path.resolve(), folder)}:{line}"
