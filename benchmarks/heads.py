"""From which size of operator on it does not pay to compute attention heads at once.

`python -m benchmarks.heads`: forward and backward passes with a loop over the heads, and with all
of them in one product, by turns on one thread. Times are CPU time of the thread, so that other
programs disturb them little. `SMALL` in hotlap.profile.join is set by it.
"""

import time
from collections.abc import Callable
from statistics import median, quantiles

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks import record

PAIRS = 41
SHAPES = (
    (4, 8, 32, 4), (16, 16, 64, 4), (64, 16, 64, 8), (16, 32, 64, 4), (16, 32, 96, 6),
    (32, 32, 64, 4), (16, 64, 96, 6), (16, 128, 128, 8), (16, 128, 256, 8),
)  # fmt: skip
"""Batch, length, width, heads."""
Row = dict[str, object]


class Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operators and their seconds."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.number, self.seconds = 0, 0.0

    def __torch_dispatch__(
        self, func: Callable[..., object], types: object, args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:  # fmt: skip
        """Run one operator."""
        began = time.perf_counter()
        result = func(*args, **(kwargs or {}))
        self.seconds += time.perf_counter() - began
        self.number += 1
        return result


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention as it is written out in tutorials; (..., length, width) each."""
    scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
    future = torch.ones(q.shape[-2], q.shape[-2]).triu(1).bool()
    weights = scores.masked_fill(future, float("-inf")).softmax(-1)
    return nn.functional.dropout(weights, 0.1) @ v


class Loop(nn.Module):
    """A layer for each head."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        size = width // heads
        self.heads = nn.ModuleList(
            nn.ModuleList(nn.Linear(width, size) for _ in range(3)) for _ in range(heads)
        )

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, width) to the same."""
        return torch.cat([attend(*(layer(x) for layer in head)) for head in self.heads], -1)


class AtOnce(nn.Module):
    """All heads in one product."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.all = heads, nn.Linear(width, 3 * width)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, width) to the same."""
        batch, length, width = x.shape
        parts = self.all(x).view(batch, length, 3, self.heads, width // self.heads)
        made = attend(*parts.permute(2, 0, 3, 1, 4))
        return made.transpose(1, 2).reshape(batch, length, width)


def step(model: nn.Module, x: Tensor) -> float:
    """CPU seconds of a forward and a backward pass."""
    began = time.thread_time()
    model(x).square().mean().backward()
    return time.thread_time() - began


def measured(shape: tuple[int, int, int, int]) -> Row:
    """How much faster all heads at once are, and how large the loop's operators are."""
    batch, length, width, heads = shape
    loop, at_once, x = Loop(width, heads), AtOnce(width, heads), torch.randn(batch, length, width)
    pairs = [(step(loop, x), step(at_once, x)) for _ in range(PAIRS)][1:]
    operators = []
    for _ in range(9):
        with Operators() as mode:
            loop(x)
        operators.append(mode.seconds / mode.number)
    ratios = [a / b for a, b in pairs]
    low, _, high = quantiles(ratios, n=4)
    return {"shape": shape, "operator": median(operators), "ratio": median(ratios),
            "quartiles": (low, high)}  # fmt: skip


def main() -> None:
    """Measure every shape and write the record."""
    torch.set_num_threads(1)
    rows = [measured(shape) for shape in SHAPES]
    summary = {f"{row['shape']}": f"{1e6 * float(str(row['operator'])):.0f} us: "
               f"{float(str(row['ratio'])):.2f}x" for row in rows}  # fmt: skip
    record.write("heads", "python -m benchmarks.heads", rows, summary)


if __name__ == "__main__":
    main()
