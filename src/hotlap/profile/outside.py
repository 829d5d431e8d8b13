"""The part of the forward pass that is spent outside of torch: in Python, NumPy, a file."""

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from hotlap.profile.findings import OUTSIDE
from hotlap.profile.join import FORWARD
from hotlap.profile.model import Finding, Profile, Remedy, bound, headline
from hotlap.profile.sources import line_of

NAME = "outside_of_torch"
LEAST = 0.05
"""Share of a step from which it is worth a word."""
OPERATORS, OF_ALL = 0.2, 0.1
"""Parts of a line's time, and of all operators' time, up to which its operators are not what it is
spent on: a line that calls the model besides is none."""
FEWEST = 5
"""Samples on the line without which nothing is said."""
WAITS = re.compile(
    r"\b(?:all_reduce|all_gather\w*|reduce_scatter\w*|all_to_all\w*|broadcast\w*|barrier|wait)\("
)
"""Calls that wait for other ranks: no operator shows how long."""


class _Line(NamedTuple):
    """A line, and what it costs in the forward pass with all that it calls, but for operators."""

    seconds: float
    samples: int
    path: Path
    number: int


def outside_of_torch(
    profile: Profile, folder: Path, taken: Collection[str], explained: float
) -> list[Finding]:
    """The finding of the costliest line in the forward pass that is not spent on operators.

    Not where operators are not known by line: on a GPU, or of a compiled model. Nor of lines that
    have a finding of their own (`taken`), or call what has: other findings explain so many seconds
    of the forward pass.
    """
    operators = any(touched.operators for touched in profile.files.values())
    if not operators or profile.facts.get("compiled") or not profile.step:
        return []
    found = max(_lines(profile), default=None)
    if found is None or found.seconds - explained < LEAST * profile.step or found.samples < FEWEST:
        return []
    inside = found.path.is_relative_to(folder)
    place = f"{found.path.relative_to(folder) if inside else found.path}:{found.number}"
    if place in taken:
        return []
    share = found.seconds / profile.step
    what = headline("work outside of torch in the forward pass", share, profile.step)
    remedy = Remedy(NAME, OUTSIDE, ("forward",), place, bound(share, profile.step), share)
    text = line_of(found.path, found.number)
    return [Finding(what, place, text, share, remedy.most, (remedy,))]


def _lines(profile: Profile) -> Iterator[_Line]:
    """The lines that are spent on something else than operators."""
    known = [of for touched in profile.files.values() for of in touched.operators.values()]
    most = OF_ALL * max(seconds for _, seconds in known)
    for path, touched in profile.files.items():
        for number, phases in touched.lines.items():
            spent = [phases[name] for name in FORWARD if name in phases]
            seconds, samples = sum(one[0] for one in spent), sum(one[1] for one in spent)
            _, inside = touched.operators.get(number, (0, 0.0))
            waits = WAITS.search(line_of(Path(path), number))
            if inside <= min(OPERATORS * seconds, most) and not waits:
                yield _Line(seconds - inside, samples, Path(path), number)
