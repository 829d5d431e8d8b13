"""DDP: compressed gradients, and batch normalisation over replicas."""

import pytest
import torch
import torch.distributed as dist
from torch import nn

from hotlap.parallel import Parallelism, parallelize
from hotlap.parallel.replicas import compress
from parallel import farm


def gradients(how: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The averaged gradient under a hook, and the true one."""
    torch.manual_seed(0)
    net = nn.Linear(64, 64, bias=False)
    x = torch.randn(2, 8, 64)
    one = nn.Linear(64, 64, bias=False)
    one.load_state_dict(net.state_dict())
    one(x.flatten(0, 1)).square().mean().backward()
    spread = parallelize(net, Parallelism.of(replicate=2, comm_hook=how))
    sent = []
    inner = dist.all_reduce
    dist.all_reduce = lambda t, *a, **k: (sent.append(t.dtype), inner(t, *a, **k))[1]
    spread.model(x[dist.get_rank()]).square().mean().backward()
    dist.all_reduce = inner
    if how in {"bf16", "fp16"}:
        assert sent == [{"bf16": torch.bfloat16, "fp16": torch.float16}[how]]
    return spread.model.module.weight.grad, one.weight.grad


@pytest.mark.parametrize(
    ("how", "most", "least"), [("", 1e-6, 0), ("fp16", 1e-3, 1e-6), ("bf16", 1e-2, 1e-5),
                               ("powersgd", 1e-6, 0)]
)  # fmt: skip
def test_compressed_gradients(how: str, most: float, least: float) -> None:
    """PowerSGD sends whole gradients for its first 10 steps."""
    for found, true in farm.run(2, gradients, how):
        apart = ((found - true).norm() / true.norm()).item()
        assert least <= apart <= most


def powersgd_later() -> float:
    torch.manual_seed(0)
    spread = parallelize(
        nn.Linear(64, 64, bias=False), Parallelism.of(replicate=2, comm_hook="powersgd")
    )
    x = torch.randn(2, 128, 64)[dist.get_rank()]
    for _ in range(12):
        spread.model.zero_grad()
        spread.model(x).square().mean().backward()
    return int(torch.linalg.matrix_rank(spread.model.module.weight.grad))


def test_powersgd_sends_rank_4() -> None:
    assert farm.run(2, powersgd_later) == [4, 4]


def refused() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    with pytest.raises(ValueError, match="sync_batch_norm works on CUDA only"):
        parallelize(net, Parallelism.of(replicate=2, sync_batch_norm=True))
    wrapped = nn.parallel.DistributedDataParallel(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="cannot be compressed by 'int8'"):
        compress(wrapped, "int8")


def test_what_cannot_be() -> None:
    farm.run(2, refused)
