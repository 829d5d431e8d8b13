"""Blocks recomputed in backward: the same gradients, less kept, statistics moved once."""

import copy

import pytest
import torch
from torch import nn

from hotlap.common.recomputing import named, repeated, restore
from hotlap.engine import EngineConfig, recompute
from hotlap.engine.preparation import chosen


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.line, self.norm, self.drop = nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Dropout(0.3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(torch.relu(self.norm(self.line(x)))) + x


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Sequential(*(Block() for _ in range(4))), nn.Linear(6, 2))


def gradients(model: nn.Module) -> list[torch.Tensor]:
    torch.manual_seed(7)
    model(torch.randn(5, 6)).square().sum().backward()
    return [p.grad for p in model.parameters() if p.grad is not None]


def kept(model: nn.Module) -> int:
    sizes: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        sizes[tensor.data_ptr()] = tensor.nbytes
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        model(torch.randn(50, 6))
    return sum(sizes.values())


def test_exact_and_smaller_and_undone() -> None:
    plain = net()
    model = copy.deepcopy(plain)
    blocks = repeated(model)
    assert len(blocks) == 4
    recompute(blocks)
    assert kept(model) < 0.6 * kept(plain)
    for m in (plain, model):  # the measuring moved the statistics and must not count
        for norm in m.modules():
            if isinstance(norm, nn.BatchNorm1d):
                norm.reset_running_stats()
    assert all(map(torch.equal, gradients(model), gradients(plain)))
    for mine, theirs in zip(model.buffers(), plain.buffers(), strict=True):
        assert torch.equal(mine, theirs)
    restore(blocks)
    assert not any("forward" in vars(block) for block in blocks)


def test_evaluation_is_left_alone() -> None:
    model = net().eval()
    x = torch.randn(3, 6)
    plain = model(x)
    recompute(repeated(model))
    assert torch.equal(model(x), plain)


@pytest.mark.parametrize(
    ("patterns", "number"), [(("0.*",), 4), (("0.1",), 1), (("0", "0.1"), 1), (("0.[02]",), 2)]
)
def test_blocks_by_name(patterns: tuple[str, ...], number: int) -> None:
    assert len(named(net(), patterns)) == number


def test_a_name_that_is_nobodys() -> None:
    with pytest.raises(ValueError, match=r"no block is called 'layers\.\*'; there are 0, 0.0"):
        named(net(), ("layers.*",))


def test_every_kth() -> None:
    assert len(chosen(net(), EngineConfig(recompute_every=2))) == 2
    with pytest.raises(ValueError, match="no blocks that repeat"):
        chosen(nn.Linear(2, 2), EngineConfig(recompute_every=1))
    with pytest.raises(ValueError, match="memory_budget instead"):
        chosen(net(), EngineConfig(recompute_every=1, compile="default"))
