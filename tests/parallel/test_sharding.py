"""FSDP2: what is sharded, in which numbers, where it is kept."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor, Shard

from hotlap.parallel import Parallelism, Preparation, parallelize
from hotlap.parallel.sharding import policies, reshards
from parallel import farm
from parallel.gpt import GPT, loss


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ({"shard": 2}, True),
        ({"shard": 2, "pp": 2}, False),
        ({"shard": 2, "pp": 2, "reshard": "always"}, True),
        ({"shard": 2, "reshard": "never"}, False),
    ],
)
def test_when_parameters_are_given_up(names: dict[str, Any], expected: bool) -> None:
    assert reshards(Parallelism.of(**names)) is expected


def test_policies() -> None:
    plain = policies(Parallelism.of(shard=2), torch.device("cpu"))
    assert plain["mp_policy"].param_dtype is None
    assert "offload_policy" not in plain
    half = policies(
        Parallelism.of(shard=2, param_dtype="bfloat16", reduce_dtype="float32", cpu_offload=True),
        torch.device("cuda"),
    )
    assert half["mp_policy"].param_dtype is torch.bfloat16
    assert half["mp_policy"].reduce_dtype is torch.float32
    assert half["offload_policy"].pin_memory


def sharded() -> None:
    torch.manual_seed(torch.distributed.get_rank())  # the first rank's parameters are taken
    spread = parallelize(GPT(3), Parallelism.of(shard=-1, param_dtype="bfloat16"))
    net = spread.model
    assert spread.parallelism.data_parallel_shard_degree == 2
    assert [isinstance(layer, FSDPModule) for layer in net.layers.values()] == [True] * 3
    assert isinstance(net, FSDPModule)
    for parameter in net.parameters():
        assert isinstance(parameter, DTensor)
        assert parameter.placements == (Shard(0),)
        assert parameter.dtype is torch.float32
    seen = []
    net.layers["1"].mlp.up.register_forward_hook(lambda *a: seen.append(a[2].dtype))
    ids = torch.randint(0, 32, (2, 8))
    loss(net(ids), ids).backward()
    assert seen == [torch.bfloat16]
    assert net.head.weight.grad.dtype is torch.float32
    torch.manual_seed(0)
    wanted = GPT(3).state_dict()
    found: Any = net.state_dict()
    assert all(torch.equal(found[name].full_tensor(), wanted[name]) for name in wanted)


def test_blocks_and_numbers() -> None:
    farm.run(2, sharded)


def on_meta() -> torch.Tensor:
    with torch.device("meta"):
        net = GPT(2)

    def init(part: nn.Module) -> None:
        with torch.no_grad():
            for parameter in part.parameters():
                parameter.fill_(0.5)

    with pytest.raises(ValueError, match=r"Preparation\(init"):
        parallelize(net, Parallelism.of(shard=2))
    with torch.device("meta"):
        net = GPT(2)
    spread = parallelize(net, Parallelism.of(shard=2), preparation=Preparation(init=init))
    head: Any = spread.model.head.weight
    return head.full_tensor().detach()


def test_a_model_built_without_memory() -> None:
    for found in farm.run(2, on_meta):
        assert torch.equal(found, torch.full((32, 16), 0.5))


def tied_on_meta() -> bool:
    """Whether a step leaves those one that were one."""
    torch.manual_seed(0)
    with torch.device("meta"):
        net = GPT(2)
        net.head.weight = net.tok.weight
    number = len(list(net.parameters()))
    spread = parallelize(
        net,
        Parallelism.of(shard=2),
        preparation=Preparation(init=lambda part: [nn.init.normal_(p) for p in part.parameters()]),
    )
    assert len(spread.parameters()) == number
    optimizer = torch.optim.SGD(spread.parameters(), lr=0.1)
    ids = torch.arange(16).reshape(2, 8)
    loss(spread.model(ids), ids).backward()
    optimizer.step()
    model: Any = spread.model
    head, embedding = model.head.weight.full_tensor(), model.tok.weight.full_tensor()
    return torch.equal(head, embedding)


def test_tied_weights_of_a_model_built_without_memory_stay_tied() -> None:
    assert farm.run(2, tied_on_meta) == [True, True]


def chosen_blocks() -> None:
    spread = parallelize(
        nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4)),
        Parallelism.of(shard=2),
        preparation=Preparation(blocks=["2"]),
    )
    assert isinstance(spread.model[2], FSDPModule)
    assert not isinstance(spread.model[0], FSDPModule)


def test_blocks_by_name() -> None:
    farm.run(2, chosen_blocks)
