"""Matrix products of which one factor is nearly all zeros, such as a dense adjacency matrix.

A sparse factor gives the same, from the elements that are not zero. Of factors that gradients flow
to, such as activations and weights, nothing is said: their zeros may be others at the next step,
and what a sparse product saves there is not known.
"""

from collections.abc import Sequence

import torch
from torch._ops import OpOverload

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


def zeros_for_each(func: OpOverload[..., object], args: Sequence[object]) -> int:
    """How many elements of a matrix product's sparser factor there are for each that is not zero.

    0 where a dense factor suits. Only on the CPU: on a device no time of an operator is known.
    """
    name = str(func._overloadpacket)
    factors = [args[at] for at in FACTORS.get(name, ()) if at < len(args)]
    kept = min((part_kept(one) for one in factors if isinstance(one, torch.Tensor)), default=1.0)
    return round(1.0 / max(kept, 1e-9)) if kept <= MOST_KEPT else 0


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
