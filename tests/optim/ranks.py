"""What each of two ranks does in `test_shards.py`: train sharded, and compare with one process."""

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from hotlap.optim import LAMB, LARS, NVLAMB

KINDS = {"LARS": (LARS, 0.5), "LAMB": (LAMB, 0.02), "NVLAMB": (NVLAMB, 0.02)}


def model(how: str) -> nn.Sequential:
    """Sizes that two ranks cannot share evenly, where that is allowed."""
    torch.manual_seed(0)
    width = 8 if how == "tp" else 7
    return nn.Sequential(nn.Linear(5, width), nn.Tanh(), nn.Linear(width, 3))


def sharded(how: str) -> nn.Module:
    net = model(how)
    if how == "ddp":
        return DistributedDataParallel(net)
    if how == "fsdp":
        for layer in (net[0], net[2]):
            fully_shard(layer)
        fully_shard(net)
        return net
    mesh = init_device_mesh("cpu", (2,))
    return parallelize_module(net, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})


def train(net: nn.Module, kind: str, batches: torch.Tensor) -> torch.optim.Optimizer:
    make, lr = KINDS[kind]
    optimizer = make(net.parameters(), lr=lr, weight_decay=0.1)
    for batch in batches:
        optimizer.zero_grad()
        net(batch).square().mean().backward()
        optimizer.step()
    return optimizer


def whole(tensor: Any) -> torch.Tensor:
    return (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor).detach()


def compare(how: str, kind: str) -> None:
    torch.manual_seed(1)
    batches = torch.randn(6, 4, 5)
    rank = dist.get_rank()
    mine = batches if how == "tp" else batches[:, 2 * rank : 2 * rank + 2]
    plain, net = model(how), sharded(how)
    train(plain, kind, batches)
    optimizer = train(net, kind, mine)
    for p, q in zip(plain.parameters(), net.parameters(), strict=True):
        torch.testing.assert_close(whole(q), p.detach(), rtol=1e-5, atol=1e-6)
        for value in optimizer.state[q].values():
            assert value.dtype == torch.float32
    if how == "fsdp":
        state = get_optimizer_state_dict(net, optimizer)
        assert any(hasattr(v, "full_tensor") for v in state["state"]["0.weight"].values())


def compare_all(how: str) -> None:
    for kind in KINDS:
        compare(how, kind)
