"""The gradients' norm over all ranks, however parameters are spread."""

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from hotlap.common.ranks import local
from hotlap.optim.shards import Layout, gradient, layout, square_norms, summed


def global_norm(parameters: Iterable[Tensor], pipeline: DeviceMesh | None = None) -> Tensor:
    """The 2-norm of all gradients together, as one process that had them would compute it.

    Each gradient counts once: sharded ones are summed over their shards, replicated ones are not.
    One all-reduce for each way in which parameters are sharded, and one over the pipeline. Every
    rank must ask, with the parameters of its own part.

    Args:
        parameters: plain ones and DTensors on any meshes; those without gradients are left out.
        pipeline: the ranks that hold the other stages.

    Returns:
        A 0-d float64 tensor on the parameters' device (float32 on MPS).
    """
    sums: dict[Layout | None, Tensor] = {}
    held = [parameter for parameter in parameters if parameter.grad is not None]
    for how, members in _by_layout(held).items():
        grads = [gradient(parameter) for parameter in members]
        sums[how] = torch.stack([square_norms(same).sum() for same in _by_dtype(grads)]).sum()
    total = _total(sums)
    if pipeline is not None:
        dist.all_reduce(total, group=pipeline.get_group())
    return total.sqrt()


def clip_grad_norm_(
    parameters: Iterable[Tensor], max_norm: float, pipeline: DeviceMesh | None = None
) -> Tensor:
    """Scale all gradients so that their norm over all ranks is at most `max_norm`.

    Returns:
        The norm before clipping, as `global_norm` gives it. As in torch's function of this name the
        scale is `max_norm / (norm + 1e-6)`, at most 1.
    """
    held = [parameter for parameter in parameters if parameter.grad is not None]
    norm = global_norm(held, pipeline)
    scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    with torch.no_grad():
        for same in _by_dtype([local(p.grad) for p in held if p.grad is not None]):
            torch._foreach_mul_(same, scale.to(same[0].device, same[0].dtype))
    return norm


def _by_layout(parameters: Iterable[Tensor]) -> dict[Layout | None, list[Tensor]]:
    found: dict[Layout | None, list[Tensor]] = {}
    for parameter in parameters:
        found.setdefault(layout(parameter), []).append(parameter)
    return found


def _by_dtype(tensors: Iterable[Tensor]) -> list[list[Tensor]]:
    found: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
    for tensor in tensors:
        found.setdefault((tensor.device, tensor.dtype), []).append(tensor)
    return list(found.values())


def _total(sums: dict[Layout | None, Tensor]) -> Tensor:
    """The sum over layouts, each summed over the ranks that hold its shards."""
    if not sums:
        return torch.zeros((), dtype=torch.float64)
    rows = summed(torch.stack(list(sums.values()))[:, None], list(sums))
    return rows.sum()
