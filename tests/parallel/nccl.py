"""A rank of `test_gpu.py`, started by torchrun: checks itself."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor

from hotlap.parallel import Parallelism, parallelize
from parallel import farm, parity, table
from parallel.gpt import GPT, loss


def one_device(layout: Parallelism) -> None:
    """FSDP2 on one device; the loss goes down, and parameters are where they should be."""
    torch.manual_seed(0)
    spread = parallelize(GPT(2), layout)
    kept = "cpu" if layout.cpu_offload else "cuda"
    assert all(isinstance(p, DTensor) and p.device.type == kept for p in spread.parameters())
    optimizer = torch.optim.AdamW(spread.parameters(), lr=1e-2)
    ids = torch.randint(0, 32, (4, 8), device="cuda")
    losses = []
    for _ in range(10):
        value = loss(spread.model(ids).float(), ids)
        value.backward()
        spread.clip(1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(value.item())
    assert losses[-1] < losses[0]


def batch_norm() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    images = torch.randn(4, 3, 8, 8)
    wanted = net(images)
    net[1].reset_running_stats()
    spread = parallelize(net, Parallelism.of(replicate=2, sync_batch_norm=True))
    mine = images.chunk(2)[dist.get_rank()].cuda()
    found = spread.model(mine).cpu()
    torch.testing.assert_close(found, wanted.chunk(2)[dist.get_rank()], rtol=1e-4, atol=1e-4)


def main(what: str) -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("cpu:gloo,cuda:nccl")
    if what == "precision":
        one_device(Parallelism.of(shard=-1, param_dtype="bfloat16", reduce_dtype="float32"))
    elif what == "offload":
        one_device(Parallelism.of(shard=-1, cpu_offload=True))
    elif what == "batch norm":
        batch_norm()
    else:
        case = next(one for one in table.CORE if one.name == what)
        apart = parity.differences(parity.alone(case), [parity.rank(case)], part=what[:2] == "pp")
        assert apart["loss"] < 1e-10, apart
        assert apart["parameters"] < 1e-8, apart
    farm.end()


if __name__ == "__main__":
    main(sys.argv[1])
