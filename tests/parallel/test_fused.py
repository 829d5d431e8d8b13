"""Several matrices in one weight: each rank gets its part of each, and the gradient goes back."""

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from hotlap.parallel.fused_columns import FusedColwise, regrouped
from parallel import farm


def exchange(ranks: int, parts: int, dim: int) -> tuple[Tensor, Tensor]:
    """What this rank has of a weight of known numbers, and the gradient of a known function."""
    torch.manual_seed(0)
    shape = [3, 3]
    shape[dim] = parts * ranks * 2
    mesh = init_device_mesh("cpu", (ranks,))
    weight = torch.randn(shape, dtype=torch.float64)
    held = distribute_tensor(weight, mesh, [Shard(dim)]).requires_grad_()
    mine = regrouped(held, parts, dim)
    own = torch.cat([m.chunk(ranks, dim)[mesh.get_local_rank()] for m in weight.chunk(parts, dim)],
                    dim)  # fmt: skip
    (mine**3).sum().backward()
    assert held.grad is not None
    assert held.grad.placements == held.placements
    return (mine.detach() - own).abs().max(), (held.grad.full_tensor() - 3 * weight**2).abs().max()


@pytest.mark.parametrize(("ranks", "parts", "dim"), [(2, 3, 0), (3, 2, 1), (4, 3, 0)])
def test_every_rank_gets_its_part(ranks: int, parts: int, dim: int) -> None:
    for forward, backward in farm.run(ranks, exchange, ranks, parts, dim):
        assert forward == 0
        assert backward < 1e-14


def odd() -> None:
    mesh = init_device_mesh("cpu", (2,))
    with pytest.raises(ValueError, match="3 fused matrices has 9 columns, which 2 ranks"):
        FusedColwise(3)._apply(nn.Linear(4, 9), mesh)


def test_widths_that_cannot_be_shared() -> None:
    farm.run(2, odd)
