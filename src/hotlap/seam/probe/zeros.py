"""Matrix products of which one factor is nearly all zeros, such as a dense adjacency matrix.

A sparse factor gives the same, from the elements that are not zero. Of factors that gradients flow
to, such as activations and weights, nothing is said: their zeros may be others at the next step,
and what a sparse product saves there is not known.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Protocol

import torch
from torch._ops import OpOverload

from hotlap.core.protocol import Avoidable
from hotlap.seam.probe.repeats import LITTLE, Place
from hotlap.seam.where import Lines

FACTORS = {"aten.mm": (0, 1), "aten.addmm": (1, 2), "aten.bmm": (0, 1)}
"""Matrix products, with the factors among their arguments."""
MOST_KEPT = 0.005
LEAST = 1 << 18
"""Part of a factor that is not zero, up to which a sparse one is faster, and elements of a factor
from which it is (benchmarks/sparse_factors.py)."""
SAMPLED = 64
"""Rows and columns of a factor that are looked at before all are counted."""
MOST_SAMPLED = 0.1
"""Part of these that is not zero, above which the factor's zeros are not counted."""


class Ran(Protocol):
    """An operator that ran; `nonzero`: the part of a factor that is not zero."""

    lines: Lines
    seconds: float
    differentiated: bool
    nonzero: float


def nonzero(func: OpOverload[..., object], args: Sequence[object]) -> float:
    """The part of a matrix product's sparser factor that is not zero; 1 where that is not known.

    Only on the CPU: on a device no time of an operator is known.
    """
    name = str(func._overloadpacket)
    factors = [args[at] for at in FACTORS.get(name, ()) if at < len(args)]
    return min((part_kept(one) for one in factors if isinstance(one, torch.Tensor)), default=1.0)


def part_kept(factor: torch.Tensor) -> float:
    """The part of a factor that is not zero; 1 where it is large, or not looked at."""
    plain = factor.layout == torch.strided and factor.device.type == "cpu"
    if not plain or factor.requires_grad:
        return 1.0
    matrix = factor[0] if factor.dim() == 3 and 0 in {len(factor) - 1, factor.stride(0)} else factor
    if matrix.dim() != 2 or matrix.numel() < LEAST:
        return 1.0
    rows, columns = (max(1, size // SAMPLED) for size in matrix.shape)
    sample = matrix[::rows, ::columns]
    if int(sample.count_nonzero()) > MOST_SAMPLED * sample.numel():
        return 1.0
    return int(matrix.count_nonzero()) / matrix.numel()


def sparse_products(runs: Sequence[Ran], before: Sequence[Ran]) -> list[Avoidable]:
    """The lines of the user's that multiply by a factor of nearly all zeros, in both steps."""
    there = {(one.path, one.line) for one in _sparse(before)}
    return [one for one in _sparse(runs) if (one.path, one.line) in there]


def _sparse(runs: Sequence[Ran]) -> Iterator[Avoidable]:
    whole: dict[Place, float] = defaultdict(float)
    found: dict[Place, list[Ran]] = defaultdict(list)
    for run in runs:
        for place in run.lines[:1]:
            whole[place] += run.seconds
            if run.nonzero <= MOST_KEPT:
                found[place].append(run)
    total = sum(run.seconds for run in runs)
    for place, products in found.items():
        spent = sum(run.seconds for run in products)
        if spent >= LITTLE * total:
            costliest = max(products, key=lambda run: run.seconds)
            yield Avoidable(
                place[0].co_filename, place[1], round(1.0 / max(costliest.nonzero, 1e-9)),
                spent / whole[place], spent / total, costliest.differentiated,
            )  # fmt: skip
