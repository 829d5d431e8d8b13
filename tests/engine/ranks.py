"""One rank of two: `ranks.py ddp|tokens|fsdp|momentum FOLDER` in a group; checks itself."""

import sys
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from hotlap.engine import Engine, EngineConfig

what, folder = sys.argv[1:]
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
start = {name: value.clone() for name, value in model.state_dict().items()}
data = [torch.randn(n, 4) for n in (3, 1, 4, 2, 6, 2, 1, 5)]
mine = data[dist.get_rank() :: 2]
momentum = 0.9 if what == "momentum" else 0.0


def expected(weighted: bool) -> dict[str, torch.Tensor]:
    """Two steps of two micro-batches on each of two ranks, on one device."""
    one = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    one.load_state_dict(start)
    sgd = torch.optim.SGD(one.parameters(), lr=0.1, momentum=momentum)
    for group in (data[:4], data[4:]):
        total = sum(len(x) for x in group)
        for x in group:
            share = len(x) / total if weighted else 0.25
            (one(x).square().mean() * share).backward()
        sgd.step()
        sgd.zero_grad()
    return one.state_dict()


def train(wrapped: nn.Module) -> Engine:
    sgd = torch.optim.SGD(wrapped.parameters(), lr=0.1, momentum=momentum)
    engine = Engine(wrapped, sgd, config=EngineConfig(accumulate=2, folder=folder))
    for x in engine.steps(mine, weigh=len if what == "tokens" else None):
        engine.step(engine.model(x).square().mean())
    return engine


def same(found: dict[str, Any], wanted: dict[str, torch.Tensor]) -> None:
    assert found.keys() == wanted.keys(), (found.keys(), wanted.keys())
    for name, value in found.items():
        full = value.full_tensor() if hasattr(value, "full_tensor") else value
        assert torch.allclose(full, wanted[name], atol=1e-6), name


reduced: list[int] = []


def counting(_: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    reduced.append(1)
    buffer = bucket.buffer() / 2
    work = dist.all_reduce(buffer, async_op=True).get_future()
    return work.then(lambda future: future.value()[0])


if what in {"fsdp", "momentum"}:
    fully_shard(model)
    engine = train(model)
    same(model.state_dict(), expected(weighted=False))
    engine.save()
    engine.checkpoints.wait()
    dist.barrier()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert engine.resume()
    same(model.state_dict(), expected(weighted=False))
    state = engine.stepper.optimizer.state
    assert all("momentum_buffer" in state[p] for p in model.parameters()) == bool(momentum)
else:
    wrapped = DistributedDataParallel(model)
    wrapped.register_comm_hook(None, counting)
    engine = train(wrapped)
    assert len(reduced) == 2, reduced  # two steps, four micro-batches
    same(model.state_dict(), expected(weighted=what == "tokens"))
    assert set(engine.state_dict()["model"]) == set(start)
engine.close()
