"""Norms and clipping count every gradient once, however parameters are spread."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

from hotlap.parallel import clip_grad_norm_, global_norm
from parallel import farm

PLACEMENTS = {
    "sharded": [Replicate(), Shard(0)],
    "uneven": [Shard(0), Replicate()],
    "both": [Shard(0), Shard(1)],
    "replicated": [Replicate(), Replicate()],
}


def whole() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {name: torch.randn(5, 6, dtype=torch.float64) for name in (*PLACEMENTS, "plain")}


def spread(full: dict[str, torch.Tensor]) -> list[nn.Parameter]:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
    found = []
    for name, grad in full.items():
        where = PLACEMENTS.get(name)
        held: Any = grad if where is None else distribute_tensor(grad, mesh, where)
        parameter = nn.Parameter(torch.zeros_like(held))
        parameter.grad = held.clone()
        found.append(parameter)
    part: Any = DTensor.from_local(torch.full((4,), 0.5).double(), mesh["a"], [Partial()])
    partial = nn.Parameter(distribute_tensor(torch.zeros(4).double(), mesh["a"], [Replicate()]))
    partial.grad = part  # sums to ones
    return [*found, partial, nn.Parameter(torch.zeros(3))]  # the last without a gradient


def norms() -> tuple[float, float, list[torch.Tensor]]:
    parameters = spread(whole())
    before = clip_grad_norm_(parameters, 2.0)
    after = global_norm(parameters)
    grads: list[Any] = [p.grad for p in parameters if p.grad is not None]
    full = [g.full_tensor() if isinstance(g, DTensor) else g for g in grads]
    return before.item(), after.item(), full


def test_each_gradient_counts_once() -> None:
    grads = [*whole().values(), torch.ones(4).double()]
    true = torch.cat([g.flatten() for g in grads]).norm().item()
    for before, after, full in farm.run(4, norms):
        assert before == pytest.approx(true, rel=1e-12)
        assert after == pytest.approx(2.0, rel=1e-6)
        for found, grad in zip(full, grads, strict=True):
            torch.testing.assert_close(found, grad * (2.0 / (true + 1e-6)), rtol=1e-12, atol=0)


def test_small_gradients_are_left_alone() -> None:
    parameter = nn.Parameter(torch.zeros(3))
    parameter.grad = torch.full((3,), 0.1)
    norm = clip_grad_norm_([parameter], 1.0)
    assert norm.item() == pytest.approx(0.1 * 3**0.5)
    assert torch.equal(parameter.grad, torch.full((3,), 0.1))


def test_as_torch_clips_it() -> None:
    torch.manual_seed(0)
    ours, theirs = ([nn.Parameter(torch.zeros(n)) for n in (3, 5)] for _ in range(2))
    for a, b in zip(ours, theirs, strict=True):
        a.grad = torch.randn(a.shape) * 10
        b.grad = a.grad.clone()
    found, wanted = clip_grad_norm_(ours, 1.5), nn.utils.clip_grad_norm_(theirs, 1.5)
    torch.testing.assert_close(found.float(), wanted)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.grad, b.grad)


def test_nothing_to_clip() -> None:
    assert global_norm([nn.Parameter(torch.zeros(2))]).item() == 0
    assert clip_grad_norm_([], 1.0).item() == 0
