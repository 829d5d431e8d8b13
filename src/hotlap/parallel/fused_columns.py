"""Column parallelism for a layer that computes several matrices at once, such as query-key-value.

The ranks' equal parts of such a weight are not what they need: with `[q; k; v]` in one matrix, half
of it is all of q and half of k, and a rank is to compute its heads' share of each. The weight is
therefore kept in equal parts, as checkpoints and FSDP know how to handle, and exchanged by one
all-to-all before use; the gradient goes the same way back.
"""

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor, nn
from torch.distributed._functional_collectives import all_to_all_single_autograd
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import (
    DTensor,
    Partial,
    Placement,
    Replicate,
    Shard,
    distribute_tensor,
)
from torch.distributed.tensor.parallel.style import ParallelStyle

from hotlap.parallel.localised import localise


class FusedColwise(ParallelStyle):
    """`ColwiseParallel` for a Linear, or a Conv1D of Hugging Face, of several equal matrices.

    Takes a replicated input, and gives this rank's columns of each matrix, side by side.

    Args:
        parts: how many matrices there are; 3 for query, key and value.
    """

    def __init__(self, parts: int = 3) -> None:
        super().__init__()
        self.parts = parts

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        out = 1 if transposed(module) else 0
        dims = {"weight": out, "bias": 0}
        self._check(module, out, device_mesh.size())
        distribute(module, device_mesh, {name: Shard(dim) for name, dim in dims.items()})
        localise(
            module, {name: partial(regrouped, parts=self.parts, dim=d) for name, d in dims.items()}
        )
        if transposed(module):
            module.nf = module.nf // device_mesh.size()  # type: ignore[operator, assignment]
        module.register_forward_pre_hook(partial(_replicated, device_mesh))
        return module

    def _check(self, module: nn.Module, out: int, ranks: int) -> None:
        width = module.weight.shape[out]  # type: ignore[index]
        if width % (self.parts * ranks):
            raise ValueError(
                f"a layer of {self.parts} fused matrices has {width} columns, which {ranks} ranks "
                "of tensor parallelism cannot share evenly"
            )


def transposed(module: nn.Module) -> bool:
    """Whether it is Hugging Face's Conv1D, a Linear whose weight is (in, out)."""
    return type(module).__name__ == "Conv1D" and hasattr(module, "nf")


def distribute(module: nn.Module, mesh: DeviceMesh, placements: Mapping[str, Placement]) -> None:
    """Make parameters of a module DTensors; every rank has the same ones to begin with."""
    for name, placement in placements.items():
        given = module._parameters.get(name)
        if given is not None and not isinstance(given, DTensor):
            spread = distribute_tensor(given.data, mesh, [placement], src_data_rank=None)
            module.register_parameter(name, nn.Parameter(spread, given.requires_grad))


def regrouped(parameter: object, parts: int, dim: int) -> Tensor:
    """From this rank's equal part to its part of each matrix; as it is where it is no DTensor.

    Cut into units of one rank's columns of one matrix, rank r keeps units `parts * r` onwards;
    unit j belongs to rank `j % ranks` and matrix `j // ranks`.
    """
    if not isinstance(parameter, DTensor):
        return torch.as_tensor(parameter)
    mesh = parameter.device_mesh
    ranks, mine = mesh.size(), mesh.get_local_rank()
    own = [parts * mine + i for i in range(parts)]
    order = sorted(range(parts), key=lambda i: own[i] % ranks)
    units = parameter.to_local().chunk(parts, dim)
    sent = torch.cat([units[i].movedim(dim, 0) for i in order])
    unit = sent.shape[0] // parts
    to = [unit * sum(j % ranks == rank for j in own) for rank in range(ranks)]
    wanted = [matrix * ranks + mine for matrix in range(parts)]
    came = [unit * sum(j // parts == rank for j in wanted) for rank in range(ranks)]
    received = all_to_all_single_autograd(sent, came, to, mesh.get_group())
    return received.movedim(0, dim)


def _replicated(
    mesh: DeviceMesh, _: nn.Module, inputs: tuple[Tensor, *tuple[object, ...]]
) -> tuple[object, ...]:
    """Give the layer its plain input, whose gradient is summed over the ranks."""
    x, *rest = inputs
    if not isinstance(x, DTensor):
        x = DTensor.from_local(x, mesh, [Replicate()], run_check=False)
    return (x.redistribute(placements=[Replicate()]).to_local(grad_placements=[Partial()]), *rest)
