"""Steps of small models, with a technique and without."""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from hotlap.bench.workloads import Sides


def _cnn() -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in ((3, 32), (32, 64), (64, 64)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def _mlp(width: int, depth: int) -> nn.Sequential:
    layers = [layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.GELU())]
    return nn.Sequential(*layers, nn.Linear(width, 10))


def _step(
    model: nn.Module, x: Tensor, context: Callable[[], AbstractContextManager[object]] = nullcontext
) -> None:
    with context():
        loss = nn.functional.cross_entropy(model(x), torch.zeros(len(x), device=x.device).long())
    loss.backward()  # type: ignore[no-untyped-call]
    model.zero_grad()


def mixed_precision(device: str) -> Sides:
    """A CNN under 16-bit autocast."""
    model, x = _cnn().to(device), torch.randn(128, 3, 64, 64, device=device)
    autocast = functools.partial(torch.autocast, device, dtype=torch.float16)
    return Sides(lambda _: _step(model, x), lambda _: _step(model, x, autocast))


def cudnn_benchmark(device: str) -> Sides:
    """A CNN with and without cuDNN's autotuner."""
    model, x = _cnn().to(device), torch.randn(128, 3, 64, 64, device=device)

    def run(on: bool) -> None:
        torch.backends.cudnn.benchmark = on
        _step(model, x)

    return Sides(lambda _: run(False), lambda _: run(True))


def channels_last(device: str) -> Sides:
    """A CNN and its images channels last; in 16 bits on a CUDA device."""
    cuda = device == "cuda"
    dtype = torch.float16 if cuda else torch.float32
    x = torch.randn(128 if cuda else 16, 3, 64, 64, device=device)
    torch.manual_seed(0)
    plain, last = _cnn().to(device), _cnn().to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    x_last = x.contiguous(memory_format=torch.channels_last)
    autocast = functools.partial(torch.autocast, device, dtype=dtype, enabled=cuda)
    return Sides(lambda _: _step(plain, x, autocast), lambda _: _step(last, x_last, autocast))


def zero_grad(device: str) -> Sides:
    """An MLP whose gradients are filled with zeros, or dropped."""
    model, x = _mlp(512, 8).to(device), torch.randn(64, 512, device=device)

    def run(to_none: bool) -> None:
        model.zero_grad(set_to_none=to_none)
        model(x).sum().backward()

    return Sides(lambda _: run(False), lambda _: run(True))


def fused_optimizer(device: str) -> Sides:
    """Adam's step for an MLP of 64 tensors: parameter by parameter, or one fused call."""

    def stepper(**how: Any) -> Callable[[int], None]:
        model = _mlp(256, 32).to(device)
        model(torch.randn(8, 256, device=device)).sum().backward()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, **how)
        return lambda _: optimizer.step() and None

    return Sides(stepper(foreach=False), stepper(fused=True))


def checkpointing(device: str) -> Sides:
    """Bytes that eight blocks keep for the backward pass, with and without checkpointing."""
    blocks = nn.ModuleList(_mlp(256, 2) for _ in range(8)).to(device)
    blocks = nn.ModuleList(nn.Sequential(*list(block)[:-1]) for block in blocks)  # type: ignore[call-overload]
    parameters = {p.data_ptr() for p in blocks.parameters()}

    def kept(forward: Callable[[nn.Module, Tensor], Tensor]) -> tuple[float, bool]:
        x = torch.randn(256, 256, device=device, requires_grad=True)
        storages: dict[int, int] = {}

        def note(tensor: Tensor) -> Tensor:
            if tensor.data_ptr() not in parameters:
                storages[tensor.data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            for block in blocks:
                x = forward(block, x)
        return float(sum(storages.values())), True

    def recomputed(block: nn.Module, x: Tensor) -> Tensor:
        found: Tensor = checkpoint(block, x, use_reentrant=False)
        return found

    return Sides(lambda _: kept(lambda block, x: block(x)), lambda _: kept(recomputed))
