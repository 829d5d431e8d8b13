"""The wait for data, and the finding of it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hotlap.profile.model import DATA, Finding, Remedy, headline


def waiting(payload: Mapping[str, Any]) -> float:
    """The part of a step that waits for data."""
    whole = payload["step"]["mean"] or 1.0
    phases = payload["phases"]
    spent = sum(float(phases[n]["mean"]) for n in DATA[:2] if n in phases)
    return min(1.0, spent / float(whole))


def with_remedies(
    found: Sequence[Finding], remedies: Sequence[Remedy], payload: Mapping[str, Any]
) -> list[Finding]:
    """Add remedies to the finding of the wait for data, or make one of them."""
    if not remedies:
        return list(found)
    for index, finding in enumerate(found):
        if finding.remedies[0].phases == ("data",):
            every = sorted((*finding.remedies, *remedies), key=lambda one: -one.expected)
            joined = replace(finding, remedies=tuple(every))
            return [*found[:index], joined, *found[index + 1 :]]
    share = waiting(payload)
    what = headline("waiting for data", share, payload["step"]["mean"])
    most = max(remedy.most for remedy in remedies)
    return [*found, Finding(what, remedies[0].place, "", share, most, tuple(remedies))]
