"""Tensor-parallel plans: what they name, what they cannot do, what they cost."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

from hotlap.parallel import Parallelism, pair, parallelize
from hotlap.parallel.tensor import check, matches, plan_of
from parallel import farm
from parallel.gpt import GPT

TWO = Parallelism.of(tp=2)


def test_names() -> None:
    assert matches("layers.3.mlp.up", "layers.*.mlp.up")
    assert matches("layers.3.mlp.gate", "layers.*.mlp.gate?")
    assert not matches("layers.3.inner.mlp.up", "layers.*.mlp.up")
    assert not matches("layers.3.mlp.upper", "layers.*.mlp.up")


def test_a_plan_that_is_another_models() -> None:
    plan = plan_of("llama", TWO)
    with pytest.raises(ValueError, match=r"names model\.embed_tokens.* GPT has no such layers"):
        check(GPT(), plan)
    check(GPT(), plan_of("gpt", TWO))


def test_no_plan() -> None:
    with pytest.raises(ValueError, match="needs tp_plan="):
        plan_of(None, TWO)
    with pytest.raises(ValueError, match="no plan 'bert'"):
        plan_of("bert", TWO)
    assert plan_of(lambda _: {"a": 1}, TWO) == {"a": 1}


@pytest.mark.parametrize("name", ["gpt2", "vit"])
def test_plans_without_sequence_parallelism_say_so(name: str) -> None:
    with pytest.raises(ValueError, match=r"has .*sequence"):
        plan_of(name, Parallelism.of(tp=2, sequence=True))


def refusals() -> None:
    with pytest.raises(ValueError, match=r"layers\.0\.attention\.q is 9 wide, which 2 ranks"):
        parallelize(GPT(width=9, heads=3), TWO, tp_plan="gpt")
    tied = GPT()
    tied.head.weight = tied.tok.weight
    plan = {"tok": RowwiseParallel(input_layouts=Replicate()), "head": RowwiseParallel()}
    with pytest.raises(ValueError, match="one parameter, and the plan spreads them in two ways"):
        parallelize(tied, TWO, tp_plan=plan)
    tied = GPT()
    tied.head.weight = tied.tok.weight
    spread = parallelize(tied, TWO, tp_plan="gpt")
    assert spread.model.head.weight is spread.model.tok.weight
    assert all(isinstance(p, DTensor) for p in spread.parameters())


def test_what_cannot_be_spread() -> None:
    farm.run(2, refusals)


def all_reduces(shared: bool) -> int:
    plan = dict(plan_of("gpt", TWO))
    if not shared:
        plan.pop("layers.*.attention")
    net = parallelize(GPT(2), TWO, tp_plan=plan).model
    ids = torch.randint(0, 32, (2, 8))
    with CommDebugMode() as mode:
        net(ids).sum().backward()
    counts: dict[Any, int] = mode.get_comm_counts()
    return sum(n for name, n in counts.items() if "all_reduce" in str(name))


@pytest.mark.slow
def test_query_key_and_value_share_one_reduction() -> None:
    """Without it each of the three reduces a gradient: two more for each of 2 layers."""
    assert farm.run(2, all_reduces, False)[0] - farm.run(2, all_reduces, True)[0] == 4


def column_row(width: int) -> float:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
    x = torch.randn(4, width)
    wanted = net(x).detach()
    spread = parallelize(net, TWO, tp_plan=pair("0", "2"))
    assert spread.model[0].weight.to_local().shape == (width // 2, width)
    assert spread.model[2].weight.to_local().shape == (width, width // 2)
    return float((spread.model(x) - wanted).abs().max())


def test_a_column_and_row_pair() -> None:
    assert max(farm.run(2, column_row, 64)) < 1e-6


@pytest.mark.slow
def test_the_articles_pair() -> None:
    """The published example: two matrices of 4096 x 4096."""
    assert max(farm.run(2, column_row, 4096)) < 1e-6


def mixed() -> None:
    """A layer that computes with a parameter of its own, which is no layer."""

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.full((4,), 2.0))
            self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert type(self.scale) is not DTensor
            return self.down(torch.relu(self.up(x * self.scale)))

    torch.manual_seed(0)
    one, net = Scaled(), Scaled()
    net.load_state_dict(one.state_dict())
    spread = parallelize(net, TWO, tp_plan={"up": ColwiseParallel(), "down": RowwiseParallel()})
    x = torch.randn(3, 4)
    one(x).square().sum().backward()
    spread.model(x).square().sum().backward()
    scale: Any = spread.model.scale
    assert isinstance(scale, DTensor)
    assert list(spread.model.state_dict()) == list(one.state_dict())
    torch.testing.assert_close(scale.grad.full_tensor(), one.scale.grad)
    torch.nn.utils.clip_grad_norm_(spread.parameters(), 1.0)  # torch's own works on it as well
    torch.optim.AdamW(spread.parameters(), foreach=True).step()


def test_parameters_outside_the_plan_are_replicated() -> None:
    farm.run(2, mixed)
