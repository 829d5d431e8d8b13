"""Work of a step whose whole result nothing uses, such as the deeper stages of a feature extractor.

An operator is *used* if the backward pass runs through it, if what it made is still there when the
step ends, if it writes to what was there before the step, or if a used operator reads what it made.
Only of operators that gradients can flow through is that known: of any other, NumPy may have read
the result. Of those a reading by the host shows, as `item` is an operator and `numpy` needs a
`detach`.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, Self

import torch
from torch._ops import OpOverload
from torch.multiprocessing.reductions import StorageWeakRef

from hotlap.core.protocol import Avoidable
from hotlap.seam.probe.repeats import (
    DETACH,
    LITTLE,
    Place,
    address,
    saved_by_autograd,
    standing_for,
)
from hotlap.seam.where import Lines

CLONE = torch.ops.aten.clone.default
"""Computes nothing: torch's own recurrent layers clone gates that nothing reads, for autograd."""
LEAST_PART = 0.1
"""Part of a line's time in operators that is discarded, below which the line is not to blame."""
KEEPS_STATISTICS = "batch_norm"
"""In the name of operators that write running statistics, though their schema does not say so."""
POOLS = "_pool"
"""In the name of operators that give indices for their backward pass alone. Those of any other,
such as `max` and `argmax`, NumPy reads without a `detach`."""


class Ran(Protocol):
    """An operator that ran, by an instruction (`call`) of a frame.

    `made`: the memory that it made, or wrote to. `reads`: the operators that made what it reads.
    `kept`: it did more than give a result.
    """

    lines: Lines
    func: OpOverload[..., object]
    call: tuple[int, int]
    seconds: float
    idle: bool
    differentiated: bool
    kept: bool
    made: list[StorageWeakRef]
    reads: list[Self]


class Reads:
    """Follows through a step which operators read what others made."""

    def __init__(self) -> None:
        self._wrote: dict[int, list[Ran]] = {}
        self._before: Ran | None = None

    def note(
        self,
        run: Ran,
        given: Collection[int],
        results: Mapping[int, Sequence[torch.Tensor]],
        written: Iterable[torch.Tensor],
    ) -> None:
        """An operator ran, with tensors at these addresses; `written` are those it wrote to."""
        for at in given:
            run.reads.extend(self._wrote.get(at, ()))
        run.kept = KEEPS_STATISTICS in str(run.func) or self._shows(run)
        for at in {address(tensor) for tensor in written}:
            writers = self._wrote.get(at)
            if writers is None:
                run.kept = True
            else:
                run.made += writers[0].made
                writers.append(run)
        for at, tensors in results.items():
            if at not in given:
                run.kept |= not tensors[0].is_floating_point() and POOLS not in str(run.func)
                storage = tensors[0].untyped_storage()
                run.made.append(StorageWeakRef(storage))  # type: ignore[no-untyped-call]
                self._wrote[at] = [run]
        self._before = run

    def _shows(self, run: Ran) -> bool:
        """Whether a result may be read by NumPy: detached, and not by autograd that saves it."""
        before = self._before
        return run.func is DETACH and not (before and saved_by_autograd(run, before))


def confirmed(steps: Sequence[Sequence[Avoidable]]) -> list[Avoidable]:
    """The rows of lines that two steps have, the newest of each.

    Of the first steps, as the other diagnoses keep tensors alive in one of them.
    """
    seen: Counter[tuple[str, int]] = Counter()
    found: dict[tuple[str, int], Avoidable] = {}
    for step in steps:
        for one in step:
            seen[one.path, one.line] += 1
            found[one.path, one.line] = one
    return [one for place, one in found.items() if seen[place] >= 2]


def unused_results(runs: Sequence[Ran], reached: Collection[object]) -> Iterator[Avoidable]:
    """The lines with results that nothing has used in a step that ends now.

    `reached`: the operators that the backward pass ran through. A line all of whose results are
    unused stands for all that it calls.
    """
    used = _used(runs, reached)
    working = [run for run in runs if run.lines and not run.idle and run.func is not CLONE]
    mixed = {place for run in working if run in used for place in run.lines}
    seconds: dict[Place, float] = defaultdict(float)
    whole: dict[Place, float] = defaultdict(float)
    for run in working:
        if run not in used:
            seconds[standing_for(run.lines, mixed)] += run.seconds
    for run in working:
        for place in {*run.lines} & seconds.keys():
            whole[place] += run.seconds
    total = sum(run.seconds for run in runs)
    for (code, line), spent in seconds.items():
        part = spent / whole[code, line] if whole[code, line] else 0.0
        if spent >= LITTLE * total and part >= LEAST_PART:
            yield Avoidable(code.co_filename, line, 0, part, spent / total)


def _used(runs: Sequence[Ran], reached: Collection[object]) -> set[Ran]:
    needed = {run for run in runs if run in reached}
    for run in reversed(runs):
        if run.idle and not run.kept:
            continue  # a view: who reads it reads the memory
        known = run.differentiated and run.made and not run.kept
        if not known or run in needed or any(map(_there, run.made)):
            needed.add(run)
            needed.update(run.reads)
    return needed


def _there(memory: StorageWeakRef) -> bool:
    """Whether anything still refers to it."""
    return not memory.expired()  # type: ignore[no-untyped-call]
