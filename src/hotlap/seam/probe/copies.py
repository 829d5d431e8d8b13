"""Work whose result holds the same several times: it was done on copies of one thing.

A weight that is expanded over the batch before it is factorised, learned queries repeated for each
sample before a layer sees them, samples repeated K times before the encoder: an operator that does
the same to each copy makes a result of equal parts, and one part suffices. A result is looked at as
`groups` groups of `copies` parts each, and is *copied* where the parts of each group are equal.

Rows that are picked by index, as those of the two ends of each edge of a graph, are copies as well,
if there are more of them than of the rows that they are picked from. A matrix product multiplies
each row by itself, so that the rows can be multiplied first and picked afterwards, and those that
were concatenated by their own columns of the weight. In the same way a convolution of one tap gives
the same before an interpolation, whose weights add up to one, as after it.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import Protocol, TypeVar

import torch
from torch._ops import OpOverload
from torch.multiprocessing.reductions import StorageWeakRef

from hotlap.core.protocol import Avoidable
from hotlap.seam.probe.repeats import address, in_both, vain_lines
from hotlap.seam.where import Lines

LEAST = 64
"""Elements of a result below which its parts are not compared."""
MOST_COPIES = 2.0
"""Picked rows, over those that they are picked from, from which there are copies."""
FIRST = 8
"""Elements of a part that are compared before all are."""
PICKS = {"aten.index_select", "aten.index"}
REPEATS = PICKS | {"aten.repeat"}
"""Operators that copy rows, so that what they make may be a multiple of what they take."""
MOVES = REPEATS | {"aten.clone", "aten.copy_", "aten._to_copy", "aten.cat", "aten.stack"}
"""Operators that compute nothing: the copies may be needed."""
MOST_PATTERNS = 8
"""Patterns that are tried of a result: each takes some microseconds."""
ROWS_AT = {"aten.mm": 0, "aten.addmm": 1}
"""Where matrix products have the rows among their tensors."""

Pattern = tuple[int, int]
"""Groups, and copies in each."""


class Ran(Protocol):
    """An operator that ran; `idle`: it makes a view.

    `copies`: how many equal parts the groups of its result have, or how often each row was picked
    on average; 1 where they differ, 0 where they were not compared.
    """

    lines: Lines
    func: OpOverload[..., object]
    seconds: float
    idle: bool
    differentiated: bool
    copies: float


class Copies:
    """Follows through a step in which patterns results are copied."""

    def __init__(self) -> None:
        self._numbers: set[int] = set()
        self._patterns: set[Pattern] = set()
        self._picked: dict[int, tuple[float, int]] = {}
        self._memory: list[StorageWeakRef] = []

    def of(
        self,
        func: OpOverload[..., object],
        given: Sequence[torch.Tensor],
        results: Sequence[torch.Tensor],
    ) -> float:
        """How often an operator's results hold the same; 0 where that is not known.

        Only of plain tensors of the CPU: on a device no time of an operator is known.
        """
        first = next((one for one in results if one.dim()), None)
        if first is None or first.device.type != "cpu":
            return 0
        self._picked.pop(address(first), None)  # it was written to
        self._numbers.update(_numbers(func, given, first))
        picked = self._pick(str(func._overloadpacket), given, first)
        if picked >= MOST_COPIES:
            return picked
        kept = [one for one in results if one.is_floating_point() and one.numel() >= LEAST]
        for pattern in self._candidates(first) if kept else ():
            if all(_copied(one, pattern) for one in kept):
                self._patterns.add(pattern)
                return pattern[1]
        return 1 if kept else 0

    def _pick(self, name: str, given: Sequence[torch.Tensor], result: torch.Tensor) -> float:
        """How often each row of a matrix product was picked; 1 where none was."""
        if name in ROWS_AT:
            return self._copies_in(given[ROWS_AT[name]])
        if name == "aten.convolution" and given[1].shape[2:].numel() == 1:
            return self._copies_in(given[0])
        copies = 1.0
        rows = name in PICKS and given[0].shape[-1:] == result.shape[-1:]
        if rows or name.startswith("aten.upsample"):
            copies = result.numel() / max(1, given[0].numel())
        elif name == "aten.cat":  # of columns: rows of no other tensor
            once = sum(one.shape[-1] / self._copies_in(one) for one in given)
            copies = result.shape[-1] / max(1e-9, once)
        if copies >= MOST_COPIES:
            self._picked[address(result)] = copies, result.shape[-1]
            # While it is referred to, no other memory gets its address.
            self._memory.append(StorageWeakRef(result.untyped_storage()))  # type: ignore[no-untyped-call]
        return 1.0

    def _copies_in(self, tensor: torch.Tensor) -> float:
        """How often each row of a tensor was picked: not of one that is transposed."""
        copies, width = self._picked.get(address(tensor), (1.0, 0))
        return copies if tensor.shape[-1] == width else 1.0

    def _candidates(self, result: torch.Tensor) -> list[Pattern]:
        """The patterns that a result may have, the largest number of copies first."""
        shape = result.shape
        by_number = [
            pattern
            for copies in self._numbers
            if shape[0] % copies == 0
            for pattern in ((shape[0] // copies, copies), (1, copies))
        ]
        by_number += [
            (prod(shape[:at]), size) for at, size in enumerate(shape) if size in self._numbers
        ]
        found = [one for one in {(1, shape[0]), *self._patterns, *by_number} if one[1] > 1]
        return heapq.nlargest(MOST_PATTERNS, found, key=lambda one: one[1])


def _numbers(
    func: OpOverload[..., object], given: Iterable[torch.Tensor], result: torch.Tensor
) -> Iterator[int]:
    """How often something is repeated in what an operator takes, or by it."""
    for tensor in given:
        for size, step in zip(tensor.shape, tensor.stride(), strict=True):
            if step == 0 and size > 1:
                yield size
        if str(func._overloadpacket) in REPEATS and 0 < tensor.numel() < result.numel():
            yield result.numel() // tensor.numel()


def _copied(result: torch.Tensor, pattern: Pattern) -> bool:
    """Whether the parts of each group are equal, and not all of one number."""
    groups, copies = pattern
    if result.numel() % (groups * copies):
        return False
    parts = result.detach().reshape(groups, copies, -1)
    few = parts[:: max(1, groups - 1), :: copies - 1, :FIRST]
    if not torch.equal(few[:, 0], few[:, 1]):
        return False
    one = parts[0, 0]
    return bool((parts == parts[:, :1]).all()) and not bool((one == one[0]).all())


class Operator(Protocol):
    """An operator that ran; `idle`: it makes a view."""

    func: OpOverload[..., object]
    idle: bool


One = TypeVar("One", bound=Operator)


def computing(runs: Iterable[One]) -> list[One]:
    """The operators that do more than move numbers."""
    return [run for run in runs if not run.idle and str(run.func._overloadpacket) not in MOVES]


def copied_work(runs: Sequence[Ran], before: Sequence[Ran]) -> list[Avoidable]:
    """The lines of the user's that compute the same for several copies, in both steps.

    A line all of whose work is such stands for all that it calls.
    """
    return in_both(_copied_work(runs), _copied_work(before))


def _copied_work(runs: Sequence[Ran]) -> Iterator[Avoidable]:
    working = computing(runs)
    mixed = {place for run in working if run.copies == 1 for place in run.lines}
    total = sum(run.seconds for run in runs)
    return vain_lines(working, mixed, total, _wasted, lambda run: round(run.copies))


def _wasted(run: Ran) -> float:
    """Seconds that all copies but one take."""
    return run.seconds * (1.0 - 1.0 / run.copies) if run.copies > 1 else 0.0
