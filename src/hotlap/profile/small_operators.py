"""Loops of the user's that run many small operators of torch one by one."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hotlap.profile.findings import ONE_BY_ONE
from hotlap.profile.join import forward_part
from hotlap.profile.model import NO_BOUND, Finding, Profile, Remedy, Touched, headline
from hotlap.profile.sources import line_of, parsed, shown

NAME = "small_operators"
LEAST = 0.15
"""Share of a step from which it is worth a word."""
MANY = 1000
"""Operators of a loop in a step. A loop over the layers of a model runs some hundreds."""
SMALL = 50e-6
"""Mean seconds of an operator, with the Python around it, up to which its call counts for more than
its work."""
ALIKE = 0.7
"""Part of the costliest loop's time that those around it, and in it, take as well."""
EXPLAINED = 0.5
"""Part of a loop's time from which the findings of its lines say enough."""
READS = "_local_scalar_dense"
"""What `.item()` calls."""
GIVES = 0.5
"""Part of the loop's time that is expected to go where its rounds are taken together."""
_TRAINS = ("backward", "optimizer", "evaluation")
_LOOPS = (ast.For, ast.While, ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)


@dataclass(frozen=True)
class _Loop:
    """A loop: `operators` of a step, and its costliest line.

    Seconds in the `forward` pass, in what is `other` than the phases of a step, and behind them.
    """

    path: Path
    lines: range
    operators: int
    forward: float
    other: float
    backward: float
    line: int

    @property
    def seconds(self) -> float:
        """All of them."""
        return self.forward + self.other + self.backward

    @property
    def phases(self) -> tuple[str, ...]:
        """The phases of a step that it takes time in."""
        seconds = {"forward": self.forward, "backward": self.backward, "other": self.other}
        return tuple(name for name, spent in seconds.items() if spent)


def small_operators(
    profile: Profile, folder: Path, taken: Mapping[str, float], explained: float
) -> list[Finding]:
    """The finding of the costliest loop; of loops that lie in each other, of all.

    Not of one most of which findings explain that its lines have (`taken`: their seconds), nor of
    what other findings explain: so many seconds of the forward pass. Nor of a loop that trains: its
    rounds are steps.
    """
    if profile.facts.get("compiled") or not profile.step:
        return []
    reading = frozenset(_reading(profile))
    free = [
        loop
        for loop in _loops(profile)
        if _free(loop, folder, taken) and reading.isdisjoint(_places(loop, folder))
    ]
    most = max((loop.seconds - min(explained, loop.forward) for loop in free), default=0.0)
    if most < LEAST * profile.step:
        return []
    nested = sorted(
        (one for one in free if one.seconds >= ALIKE * most), key=lambda one: one.operators
    )
    loop = nested[0]
    place, *around = dict.fromkeys(f"{shown(one.path, folder)}:{one.line}" for one in nested)
    share = min(1.0, loop.seconds / profile.step)
    words = f"{loop.operators:,} small operators of torch, one by one, in a loop"
    what = headline(words, share, profile.step)
    remedy = Remedy(NAME, ONE_BY_ONE, loop.phases, place, NO_BOUND, GIVES * share)
    text = line_of(loop.path, loop.line)
    return [Finding(what, place, text, share, NO_BOUND, (remedy,), tuple(around))]


def _free(loop: _Loop, folder: Path, taken: Mapping[str, float]) -> bool:
    known = sum(taken.get(place, 0.0) for place in _places(loop, folder))
    return known <= EXPLAINED * loop.seconds


def _places(loop: _Loop, folder: Path) -> list[str]:
    name = shown(loop.path, folder)
    return [f"{name}:{line}" for line in loop.lines]


def _reading(profile: Profile) -> Iterator[str]:
    """The lines between the phases that read numbers one by one: their call has its own finding."""
    for line in profile.lines.get("other", ()):
        if any(name == READS for name, _ in line.operators):
            yield line.place


def _loops(profile: Profile) -> Iterator[_Loop]:
    """The loops that run many operators, each of which is small."""
    behind = next((phase.mean for phase in profile.phases if phase.name == "backward"), 0.0)
    for name, touched in profile.files.items():
        for node in ast.walk(parsed(Path(name))):
            if isinstance(node, _LOOPS):
                lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                if any(phase in touched.lines.get(line, ()) for line in lines for phase in _TRAINS):
                    continue  # its rounds are steps of the training
                loop = _loop(Path(name), lines, touched, behind)
                if loop.operators >= MANY and loop.forward + loop.other <= SMALL * loop.operators:
                    yield loop


def _loop(path: Path, lines: range, touched: Touched, behind: float) -> _Loop:
    """What the lines take; `behind`: seconds of the whole backward pass."""
    ran = [touched.operators[line] for line in lines if line in touched.operators]
    sampled = {line: touched.lines[line] for line in lines if line in touched.lines}
    forward = {line: forward_part(phases)[0] for line, phases in sampled.items()}
    other = {line: phases["other"][0] for line, phases in sampled.items() if "other" in phases}
    spent = {line: forward[line] + other.get(line, 0.0) for line in sampled}
    part = min(1.0, sum(of[2] for of in ran))
    line = max(spent, key=lambda line: spent[line], default=0)
    operators = sum(of[0] for of in ran)
    return _Loop(
        path, lines, operators, sum(forward.values()), sum(other.values()), part * behind, line
    )
