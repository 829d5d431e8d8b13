"""Matrices that are picked by index for each row, which is then multiplied by its own copy.

`torch.bmm(x.unsqueeze(1), weight[kind])`, as for relations of a graph's edges, tasks or experts,
copies a matrix for each row and reads it again, in the backward pass as well. The rows of one kind
can be multiplied at once by the one matrix that all of them use.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch._ops import OpOverload
from torch.multiprocessing.reductions import StorageWeakRef

from hotlap.seam.probe.repeats import address

PICKS = {"aten.index_select", "aten.index", "aten.embedding"}
LEAST_COPIES = 16.0
LEAST = 1 << 18
"""Copies of each matrix, and elements of all copies, from which groups are faster where each copy
multiplies one row (benchmarks/picked_matrices.py)."""


class Ran(Protocol):
    """An operator that ran; `matrix_copies`: of each matrix that it picks, or multiplies by."""

    matrix_copies: int


@dataclass(frozen=True)
class Pick:
    """What picked so many matrices, or rows of anything else."""

    run: Ran
    number: int
    copies: float


class Matrices:
    """Follows through a step what was picked by index, and matrix products with it."""

    def __init__(self) -> None:
        self._picked: dict[int, Pick] = {}
        self._memory: list[StorageWeakRef] = []

    def note(
        self,
        run: Ran,
        func: OpOverload[..., object],
        given: Sequence[torch.Tensor],
        results: Sequence[torch.Tensor],
    ) -> None:
        """An operator ran. On the CPU alone: on a device no time of an operator is known."""
        if not results or results[0].device.type != "cpu":
            return
        name, made = str(func._overloadpacket), results[0]
        if name == "aten.bmm":
            self._multiplied(run, *given[:2])
        self._picked.pop(address(made), None)
        table = given[0] if name in PICKS else made
        copies = made.numel() / max(1, table.numel())
        if made.numel() >= LEAST and copies >= LEAST_COPIES and table.dim() > 1:
            self._picked[address(made)] = Pick(run, round(copies * len(table)), copies)
            # While it is referred to, no other memory gets its address.
            self._memory.append(StorageWeakRef(made.untyped_storage()))  # type: ignore[no-untyped-call]

    def _multiplied(self, run: Ran, left: torch.Tensor, right: torch.Tensor) -> None:
        """A batch of matrix products ran: mark it, and the pick, where a factor was picked."""
        for factor, rows in ((left, right.shape[2]), (right, left.shape[1])):
            pick = self._picked.get(address(factor))
            whole = pick is not None and pick.number == len(factor) and min(factor.shape[1:]) > 1
            if pick is not None and whole and rows == 1:
                run.matrix_copies = pick.run.matrix_copies = round(pick.copies)
