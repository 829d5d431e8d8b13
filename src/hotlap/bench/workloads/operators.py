"""Single operators: gelu in its ways, and a matrix product whose sizes fit or do not."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from hotlap.bench.workloads import Sides
from hotlap.kernels import gelu

ROWS, COLUMNS = 2000, 3000


def _formula(x: Tensor) -> Tensor:
    return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))


def _raced(b: Callable[[Tensor], Tensor], device: str) -> Sides:
    x = torch.randn(ROWS, COLUMNS, device=device)

    def run(function: Callable[[Tensor], Tensor]) -> None:
        with torch.no_grad():
            function(x)

    return Sides(lambda _: run(_formula), lambda _: run(b))


def gelu_scripted(device: str) -> Sides:
    """The formula through TorchScript, whose fuser warms up in the first calls."""
    scripted = torch.jit.script(_formula)
    for _ in range(4):
        scripted(torch.randn(ROWS, COLUMNS, device=device))
    return _raced(scripted, device)


def gelu_compiled(device: str) -> Sides:
    """The formula through torch.compile."""
    return _raced(torch.compile(_formula), device)


def gelu_kernel(device: str) -> Sides:
    """A kernel of its own: hotlap's."""
    return _raced(gelu, device)


def multiple_of_8(device: str) -> Sides:
    """The output layer of a language model: batch x 1024 by 1024 x vocabulary, and its gradients.

    On a CUDA device with the article's sizes, in 16 bits; on a CPU with a smaller batch.
    """
    cuda = device == "cuda"
    batch, width = (4088, 4096) if cuda else (64, 512)
    dtype = torch.float16 if cuda else torch.float32
    x = torch.randn(batch, width, device=device, dtype=dtype)
    weights = [torch.randn(n, width, device=device, dtype=dtype) for n in (33708, 33712)]

    def run(weight: Tensor) -> None:
        torch.nn.functional.linear(x, weight)

    return Sides(lambda _: run(weights[0]), lambda _: run(weights[1]))
