"""The wait for data, and the finding of it."""

from collections.abc import Sequence
from dataclasses import replace

from hotlap.core.protocol import ProfilePayload
from hotlap.profile.model import DATA, Finding, Remedy, headline, usual_times


def waiting(payload: ProfilePayload) -> float:
    """The part of a step that waits for data."""
    seconds, step = usual_times(payload)
    return min(1.0, sum(seconds.get(name, 0.0) for name in DATA[:2]) / (step or 1.0))


def with_remedies(
    found: Sequence[Finding], remedies: Sequence[Remedy], payload: ProfilePayload
) -> list[Finding]:
    """Add remedies to the finding of the wait for data, or make one of them."""
    if not remedies:
        return list(found)
    for index, finding in enumerate(found):
        if finding.remedies[0].phases == ("data",):
            every = sorted((*finding.remedies, *remedies), key=lambda one: -one.expected)
            joined = replace(finding, remedies=tuple(every))
            return [*found[:index], joined, *found[index + 1 :]]
    share, (_, step) = waiting(payload), usual_times(payload)
    what = headline("waiting for data", share, step)
    most = max(remedy.most for remedy in remedies)
    return [*found, Finding(what, remedies[0].place, "", share, most, tuple(remedies))]
