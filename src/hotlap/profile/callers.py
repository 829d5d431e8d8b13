"""The call that leads to most of a cost which is spread over the lines of a function."""

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from hotlap.profile.model import DATA, Finding, Profile
from hotlap.profile.sources import line_of, shown

MOST = 0.5
"""Part of the phases' time in what a line calls, from which it is named in place of one of them."""
ALL = 0.95
"""Part from which a line, such as the loop over a loader, leads to everything and says nothing."""


def from_one_call(finding: Finding, profile: Profile, folder: Path) -> Finding:
    """The finding, at the innermost line that leads to most of what is spread over others."""
    if not finding.spread:
        return finding
    phases = {n for p in finding.remedies[0].phases for n in (DATA if p == "data" else (p,))}
    seconds: dict[tuple[str, int], float] = defaultdict(float)
    for name, touched in profile.files.items():
        for number, by_phase in touched.lines.items():
            seconds[name, number] += sum(of[0] for phase, of in by_phase.items() if phase in phases)
    whole = max(seconds.values(), default=0.0)
    found = [(spent, at) for at, spent in seconds.items() if MOST * whole <= spent < ALL * whole]
    if not found:
        return finding
    spent, (name, number) = min(found)
    path = Path(name)
    what = finding.what.replace(
        finding.spread, f"{spent / whole:.0%} of it in this line and what it calls"
    )
    place = f"{shown(path, folder)}:{number}"
    return replace(finding, what=what, place=place, text=line_of(path, number), spread="")
