"""What the user's lines take in operators of torch, with the part of the backward pass behind them.

Autograd numbers the nodes of its graph one after the other. It makes an operator's node right
before the operator runs, so that the last number given is that of its node. In the backward pass
the number of the node that runs leads back to the line. The node of a custom function has the line
of the first operator in the function's forward pass, behind the lines of its `backward`.
"""

import heapq
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Protocol

import torch
from torch._C._autograd import _get_sequence_nr
from torch._ops import OpOverload
from torch.autograd.function import BackwardCFunction

from hotlap.core.protocol import OperatorCounts, Replaceable, SampledLine
from hotlap.seam.probe.repeats import Place
from hotlap.seam.probe.sampler import OwnOperators, innermost, source
from hotlap.seam.where import Lines, is_users, line_of, short

MOST_UNKNOWN = 0.3
"""Part of the backward pass's time in operators that no line is known for, above which its lines
are not named: those that are known need not be the costliest."""
INDEX_PUT, IN_PLACE = torch.ops.aten.index_put.default, torch.ops.aten.index_put_.default
CLEARED = torch.ops.aten.new_zeros.default
NAMED = 3
"""Operators that are named of a line."""
LISTED = 8
"""Lines that are listed of the backward pass."""


Parts = dict[Place, list[float]]
"""By line, seconds outside of the backward pass and in it."""


class Ran(Protocol):
    """An operator that ran from the user's `lines`, the innermost first.

    `replaceable`: the technique that would replace it; empty if none would.
    """

    lines: Lines
    func: OpOverload[..., object]
    seconds: float
    replaceable: str


@dataclass(eq=False)
class Behind:
    """An operator of the backward pass; `lines` and `replaceable` of the one that it works for."""

    lines: Lines
    func: OpOverload[..., object]
    seconds: float
    replaceable: str = ""


class Backward:
    """Runs the operators of a step's backward passes: `ran`; `reached` are those they work for."""

    def __init__(self) -> None:
        self.ran: list[Behind] = []
        self.reached: set[Ran] = set()
        self._of: dict[int, Ran] = {}
        self._cleared: object = None

    def precedes(self, run: Ran) -> None:
        """An operator is about to run that may be differentiated."""
        self._of.setdefault(_get_sequence_nr() - 1, run)

    def run(
        self, func: OpOverload[..., object], args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        """Run one operator, and note it."""
        node = torch._C._current_autograd_node()
        of = self._of.get(node._sequence_nr()) if node is not None else None
        run = Behind((), func, 0.0)
        if of is not None:
            self.reached.add(of)
            run.lines, run.replaceable = of.lines, of.replaceable
        if isinstance(node, BackwardCFunction):
            run.lines = (*_own_backward(sys._getframe(1)), *run.lines)
        self.precedes(run)  # what it makes may be differentiated again
        if func is INDEX_PUT and args[0] is self._cleared and not torch.is_grad_enabled():
            # In place, as without a mode; under one autograd adds into a copy of what it cleared.
            func = run.func = IN_PLACE
        began = time.perf_counter()
        result = func(*args, **kwargs)
        run.seconds = time.perf_counter() - began
        self._cleared = result if func is CLEARED else None
        self.ran.append(run)
        return result


def _own_backward(frame: FrameType | None) -> Lines:
    """The user's lines in the `backward` of a custom function that run an operator."""
    found: list[Place] = []
    while frame is not None and frame.f_globals.get("__name__") != BackwardCFunction.__module__:
        if is_users(frame.f_code):
            found.append((frame.f_code, line_of(frame)))
        frame = frame.f_back
    return tuple(found)


def take_least(steps: Iterable[Iterable[Ran]]) -> None:
    """Of each operator, the seconds that it took in the step in which it took least.

    In another one its thread may have lost the core in between, for longer than all others took.
    """
    same: dict[Hashable, list[Ran]] = defaultdict(list)
    for step in steps:
        came: Counter[Hashable] = Counter()
        for run in step:
            which = run.lines, run.func
            came[which] += 1
            same[which, came[which]].append(run)
    for runs in same.values():
        seconds = min(run.seconds for run in runs)
        for run in runs:
            run.seconds = seconds


def operators_by_line(runs: Iterable[Ran], behind: Iterable[Behind]) -> dict[str, OperatorCounts]:
    """By file, what ran from each line and from all that it calls."""
    found: dict[Place, tuple[int, float]] = {}
    for run in runs:
        for place in dict.fromkeys(run.lines):
            number, seconds = found.get(place, (0, 0.0))
            found[place] = number + 1, seconds + run.seconds
    parts = _parts(behind)
    files: dict[str, OperatorCounts] = defaultdict(dict)
    for place in {**found, **parts}:
        (code, line), counted = place, found.get(place, (0, 0.0))
        files[code.co_filename][line] = (*counted, parts.get(place, 0.0))
    return dict(files)


def _parts(behind: Iterable[Behind]) -> Mapping[Place, float]:
    """By line, the part of the backward pass that works for what ran from it and all it calls."""
    seconds: dict[Place, float] = defaultdict(float)
    for run in behind:
        for place in dict.fromkeys(run.lines):
            seconds[place] += run.seconds
    whole = _known(behind)
    return {place: spent / whole for place, spent in seconds.items()} if whole else {}


def _known(behind: Iterable[Behind]) -> float:
    """Seconds of the backward pass in operators; 0 where too little of it is known by line."""
    whole = sum(run.seconds for run in behind)
    unknown = sum(run.seconds for run in behind if not run.lines)
    return whole if unknown <= MOST_UNKNOWN * whole else 0.0


def own_operators(runs: Iterable[Ran]) -> OwnOperators:
    """Which operators run from the lines themselves, the costliest first."""
    found: dict[tuple[str, int], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for run in runs:
        if run.lines:
            (code, line), name = run.lines[0], str(run.func._overloadpacket).removeprefix("aten.")
            found[code.co_filename, line][name] += run.seconds
    return {
        place: heapq.nlargest(NAMED, names.items(), key=lambda one: one[1])
        for place, names in found.items()
    }


def backward_by_line(behind: list[Behind]) -> list[SampledLine]:
    """The innermost lines of the forward pass, by their part of the backward pass."""
    own, whole = own_operators(behind), _known(behind)
    seconds: dict[Place, float] = defaultdict(float)
    for run in behind:
        if run.lines:
            seconds[innermost(run.lines)] += run.seconds
    return [
        SampledLine(
            f"{short(code.co_filename)}:{line}",
            code.co_qualname,
            source(code.co_filename, line),
            seconds[code, line] / whole,
            operators=own[code.co_filename, line],
        )
        for code, line in heapq.nlargest(LISTED, seconds, key=lambda place: seconds[place])
        if whole
    ]


def replaceable(technique: str, runs: Iterable[Ran], behind: Iterable[Behind]) -> Parts:
    """What the operators of each line take that a technique would replace, and the backward pass.

    Not what clears a gradient: `index_select` clears that of the whole matrix as well.
    """
    found: Parts = {}
    for at, ran in enumerate((runs, behind)):
        for run in ran:
            if run.lines and run.replaceable == technique and run.func is not CLEARED:
                found.setdefault(innermost(run.lines), [0.0, 0.0])[at] += run.seconds
    return found


def replaced(parts: Parts, most: Callable[[Place], float]) -> Replaceable:
    """What a technique would replace, and the costliest line.

    `most`: seconds that a line takes at most outside of the backward pass, by its samples. In the
    steps that are followed a thread may have lost its core within the same operator each time.
    """
    seconds = {place: min(ahead, most(place)) + behind for place, (ahead, behind) in parts.items()}
    if not seconds:
        return Replaceable()
    code, line = max(seconds, key=lambda place: seconds[place])
    return Replaceable(sum(seconds.values()), f"{short(code.co_filename)}:{line}")
