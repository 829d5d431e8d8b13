"""Norms of parameters of which each rank holds a part."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from hotlap.common.ranks import local

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


@dataclass(frozen=True)
class Layout:
    """Over which dimensions of which device mesh a parameter is sharded."""

    mesh: "DeviceMesh"
    dims: tuple[int, ...]


def layout(parameter: Tensor) -> Layout | None:
    """How a parameter is sharded; None where this rank holds all of it."""
    placements = getattr(parameter, "placements", None)
    if placements is None:
        return None
    dims = tuple(i for i, placement in enumerate(placements) if not placement.is_replicate())
    return Layout(parameter.device_mesh, dims) if dims else None  # type: ignore[attr-defined]


def gradient(parameter: Tensor) -> Tensor:
    """Return this rank's part of a gradient, laid out as its parameter is."""
    grad = parameter.grad
    assert grad is not None
    wanted = getattr(parameter, "placements", None)
    if wanted is not None and tuple(grad.placements) != tuple(wanted):  # type: ignore[attr-defined]
        grad = grad.redistribute(placements=wanted)  # type: ignore[attr-defined]
    return local(grad)


def summed(squares: Tensor, layouts: Sequence[Layout | None]) -> Tensor:
    """Sum the rows of `squares` (n, k) over the ranks that hold the other parts.

    One all-reduce for each dimension of each mesh, however many parameters there are. Every rank
    must ask for the same parameters in the same order, as they do when all of them have gradients.
    """
    rows: dict[Layout, list[int]] = {}
    for row, how in enumerate(layouts):
        if how is not None:
            rows.setdefault(how, []).append(row)
    for how, index in rows.items():
        part = squares[index]
        for dim in how.dims:
            torch.distributed.all_reduce(part, group=how.mesh.get_group(dim))
        squares[index] = part
    return squares


def square_norms(tensors: Sequence[Tensor]) -> Tensor:
    """The squared norms (n,) of this rank's parts, in float64 where the device has it."""
    norms = torch.stack(torch._foreach_norm(list(tensors)))
    return (norms if norms.device.type == "mps" else norms.double()).square()
