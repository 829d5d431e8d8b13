"""Work that a step does again for what has grown a little: an encoder over a longer window.

A decoder that is run on all tokens so far to get the next one, or a history that is encoded anew
at each time step: the result begins with what the same lines have computed before. A result is
compared with smaller ones of the same operator on the same lines, by a few of its elements and
with a tolerance: a matrix product of more rows may round each of them in another way. Rows of a
matrix may be those of several samples, one after the other: each sample's rows have grown.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Protocol

import torch
from torch._ops import OpOverload

from hotlap.core.protocol import Avoidable
from hotlap.seam.probe.copies import computing
from hotlap.seam.probe.repeats import in_both, vain_lines
from hotlap.seam.where import Lines

SHAPES = 3
"""Shapes of an operator's results in a step from which they may be growing."""
LEAST = 64
"""Elements below which a result is not compared."""
COMPARED = 61
"""Elements that are compared, evenly spread; a prime, so that they lie in different columns."""
COLUMNS = 4
"""Columns of a matrix that are compared."""
DIFFERENT = 8
"""Numbers among those that are compared, from which that they are equal means something."""
NEAREST = 2
"""Smaller shapes that a result is compared with, the largest first."""
MOST_KNOWN = 64
"""Results of a shape that are kept: layers of a model share their lines."""
MOST_KEPT = 1 << 24
"""Elements of a step's results that are kept for comparison: 64 MiB."""
BATCHES = 3
"""Numbers of samples that are tried of a matrix, the most frequent ones of the step."""
MOST_IN_VAIN = 24
"""Comparisons without a match, after which an operator of a line is not compared again."""
AGREE = 0.8
"""Part of the elements that agree: where a convolution reaches over the end of a result, the last
ones differ."""
NEAR = {torch.float16: 2e-2, torch.bfloat16: 1e-1}
NEAR_OF_OTHERS = 1e-3
"""Relative difference up to which two elements are the same: far more than rounding, far less than
between results of other data."""

Key = tuple[Lines, OpOverload[..., object]]
Shape = tuple[int, ...]


class Ran(Protocol):
    """An operator that ran; `idle`: it makes a view.

    `known`: the part of its result that the same operator had computed before, on the same lines.
    """

    lines: Lines
    func: OpOverload[..., object]
    seconds: float
    idle: bool
    differentiated: bool
    known: float


class Grown:
    """Follows which results begin with earlier ones of their step.

    The first step only shows which operators' results come in several shapes: those of others are
    not looked at in the next one.
    """

    def __init__(self) -> None:
        self._growing: set[Key] = set()
        self._batches: Counter[int] = Counter()
        self._forget()

    def _forget(self) -> None:
        self._shapes: dict[Key, set[Shape]] = defaultdict(set)
        self._known: dict[Key, dict[Shape, list[torch.Tensor]]] = defaultdict(dict)
        self._in_vain: Counter[Key] = Counter()
        self._room = MOST_KEPT

    def restart(self) -> None:
        """A step is over."""
        self._growing = {key for key, shapes in self._shapes.items() if len(shapes) >= SHAPES}
        self._forget()

    def part_known(
        self, lines: Lines, func: OpOverload[..., object], results: Sequence[torch.Tensor]
    ) -> float:
        """The part of an operator's result that an earlier one had; 0 where none did.

        Only on the CPU: on a device no time of an operator is known.
        """
        if not (lines and results and _is_compared(results[0])):
            return 0.0
        result, key, shape = results[0], (lines, func), tuple(results[0].shape)
        self._shapes[key].add(shape)
        if len(shape) > 2:
            self._batches[shape[0]] += 1
        if key not in self._growing or self._in_vain[key] > MOST_IN_VAIN:
            return 0.0
        known = self._known[key]
        part = self._part(result, known)
        self._in_vain[key] += 1 if known and not part else 0
        same, few = known.setdefault(shape, []), _few(result)
        if few.numel() <= self._room and len(same) < MOST_KNOWN:
            self._room -= few.numel()
            same.append(few)
        return part

    def _part(self, result: torch.Tensor, known: dict[Shape, list[torch.Tensor]]) -> float:
        smaller = sorted(
            (one for one in known if _is_smaller(one, result.shape)), key=_size, reverse=True
        )
        batches = [batch for batch, _ in self._batches.most_common(BATCHES)]
        for shape in smaller[:NEAREST]:
            near = NEAR.get(result.dtype, NEAR_OF_OTHERS)
            for few in _beginnings(result, shape, batches):
                if any(_are_same(few, one, near) for one in known[shape]):
                    return _size(shape) / result.numel()
        return 0.0


def _is_compared(result: torch.Tensor) -> bool:
    plain = result.layout is torch.strided and result.device.type == "cpu"
    return plain and result.is_floating_point() and result.numel() >= LEAST


def _is_smaller(shape: Shape, other: Shape) -> bool:
    one_by_one = len(shape) == len(other) and all(map(int.__le__, shape, other))
    return one_by_one and shape != tuple(other)


def _size(shape: Shape) -> int:
    return torch.Size(shape).numel()


def _few(result: torch.Tensor) -> torch.Tensor:
    """What stands for a result: columns of a matrix, elements of any other; a copy."""
    if result.dim() == 2:
        columns = result.detach()[:, :: max(1, result.shape[1] // COLUMNS)]
        return columns.to(torch.float32, copy=True)
    return _at(result, tuple(result.shape))


def _at(result: torch.Tensor, shape: Shape) -> torch.Tensor:
    """Elements of the beginning of a result that has the given shape."""
    size = _size(shape)
    places = torch.arange(0, size, max(1, size // COMPARED))
    return result.detach()[torch.unravel_index(places, shape)].float()


def _beginnings(
    result: torch.Tensor, shape: Shape, batches: Sequence[int]
) -> Iterator[torch.Tensor]:
    """What would stand for an earlier result of a shape, if the result began with it."""
    if len(shape) != 2:
        yield _at(result, shape)
        return
    columns = _few(result[:, : shape[1]])
    for batch in dict.fromkeys((1, *batches)):
        if shape[0] % batch == 0 and len(columns) % batch == 0:
            rows = columns.reshape(batch, -1, columns.shape[1])
            yield rows[:, : shape[0] // batch].reshape(shape[0], -1)


def _are_same(one: torch.Tensor, other: torch.Tensor, near: float) -> bool:
    """Whether nearly all elements agree, but for those at the end that the growth reaches.

    Zeros and the largest number say nothing: activations and masks fill them in.
    """
    if one.shape != other.shape:
        return False
    telling = (one != 0) & (one.abs() < one.abs().amax())
    sizes = one[telling].abs().sort().values
    if len(torch.unique(sizes)) < DIFFERENT:
        return False
    small = near * float(sizes[len(sizes) // 4])
    agree = torch.isclose(one[telling], other[telling], near, small)
    return bool(agree.float().mean() >= AGREE)


def grown_lines(runs: Sequence[Ran], before: Sequence[Ran]) -> list[Avoidable]:
    """The lines of the user's that compute again what they had computed before in the step.

    `before`: the step before, which has to show the same. A line stands for all that it calls
    where each operator of it runs several times, as what a loop around it repeats does.
    """
    return in_both(_grown_lines(runs), _grown_lines(before))


def _grown_lines(runs: Sequence[Ran]) -> Iterator[Avoidable]:
    working = computing(runs)
    times = Counter((run.lines, run.func) for run in working)
    once = {place for (lines, _), count in times.items() if count < SHAPES for place in lines}
    total = sum(run.seconds for run in runs)
    return vain_lines(working, once, total, _in_vain, lambda run: times[run.lines, run.func])


def _in_vain(run: Ran) -> float:
    """Seconds that go into what was known."""
    return run.seconds * run.known
