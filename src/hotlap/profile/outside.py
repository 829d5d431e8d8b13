"""The part of the forward pass that is spent outside of torch: in Python, NumPy, a file."""

import ast
import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from hotlap.profile.findings import OUTSIDE
from hotlap.profile.join import forward_part
from hotlap.profile.model import Finding, Profile, Remedy, bound, headline
from hotlap.profile.sources import line_of, parsed, shown
from hotlap.source.tree import FunctionNode

NAME = "outside_of_torch"
LEAST = 0.05
"""Share of a step from which it is worth a word."""
FEWEST = 5
"""Samples on the lines without which nothing is said."""
WAITS = re.compile(
    r"\b(?:all_reduce|all_gather\w*|reduce_scatter\w*|all_to_all\w*|broadcast\w*|barrier|wait)\("
)
"""Calls that wait for other ranks: no operator shows how long."""
CALLED = re.compile(r"(\w+)\(")


class _Line(NamedTuple):
    """A line, what it costs in the forward pass with all that it calls, and its samples."""

    seconds: float
    samples: int
    path: Path
    number: int


def outside_of_torch(
    profile: Profile, folder: Path, taken: Collection[str], explained: float
) -> list[Finding]:
    """The finding of the function whose lines without operators cost most in the forward pass.

    Not where operators are not known by line: on a GPU, or of a compiled model. Nor of a line that
    has a finding of its own (`taken`), or is called by one that has: other findings explain so many
    seconds of the forward pass.
    """
    operators = any(touched.operators for touched in profile.files.values())
    if not operators or profile.facts.get("compiled") or not profile.step:
        return []
    lines = max(_functions(profile), key=_seconds, default=[])
    seconds = _seconds(lines)
    few = sum(line.samples for line in lines) < FEWEST
    if few or seconds - explained < LEAST * profile.step:
        return []
    _, _, path, number = max(lines)
    place = f"{shown(path, folder)}:{number}"
    if place in taken:
        return []
    share = min(1.0, seconds / profile.step)
    what = headline("work outside of torch in the forward pass", share, profile.step)
    remedy = Remedy(NAME, OUTSIDE, ("forward",), place, bound(share, profile.step), share)
    return [Finding(what, place, line_of(path, number), share, remedy.most, (remedy,))]


def _seconds(lines: list[_Line]) -> float:
    return sum(line.seconds for line in lines)


def _functions(profile: Profile) -> Iterator[list[_Line]]:
    """The lines from which no operator ran, by function: none of them calls another.

    Nor a function that runs operators where another line calls it: it is looked at in a few steps
    alone, of a loop that stands in several places.
    """
    files = {Path(name): touched for name, touched in profile.files.items()}
    around = {path: _functions_by_line(path) for path in files}
    computes = {
        around[path][number].name
        for path, touched in files.items()
        for number in touched.operators
        if number in around[path]
    }
    for path, touched in files.items():
        found = defaultdict(list)
        for number, phases in touched.lines.items():
            seconds, samples = forward_part(phases)
            text = line_of(path, number)
            leaves = WAITS.search(text) or computes.intersection(CALLED.findall(text))
            if samples and not leaves and number not in touched.operators:
                line = _Line(seconds, samples, path, number)
                function = around[path].get(number)
                found[function.lineno if function else -number].append(line)
        yield from found.values()


def _functions_by_line(path: Path) -> dict[int, FunctionNode]:
    """By line, the innermost function around it."""
    functions = [node for node in ast.walk(parsed(path)) if isinstance(node, FunctionNode)]
    return {
        line: node
        for node in sorted(functions, key=lambda node: node.lineno)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
