"""Operations that do more than is used, against those that do not.

`python -m benchmarks.fewer_operations [--seconds 0.5]`: the first `k` of each row by a sort and by
`topk`; a Gaussian log-likelihood by the inverse and the determinant, by a solution and the
determinant, and by one Cholesky factor, forward and backward; the mean of the samples' gradients
by `vmap(grad(loss))` and by the gradient of the mean; samples of a `deque` and of a list (one
thread, microseconds for a batch). All by turns, on one thread and on
all cores, with threads that sleep while they wait. Times are medians; a ratio above 1 is one in
which the second way is faster.
"""

import os
import random
from collections import deque
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks import record
from benchmarks.row_lookups import by_turns, on_threads, seconds_given

SORTED = (
    (64, 100, 5), (64, 100, 50), (128, 1000, 10), (128, 1000, 250), (128, 8192, 72), (8, 50000, 50),
    (1, 1000000, 100), (32, 8192, 2048),
)  # fmt: skip
"""Rows, elements of a row, and how many are taken."""
SOLVED = (8, 32, 100, 300, 600, 1000)
"""Rows of the matrix."""
AVERAGED = ((16, 128), (64, 128), (256, 128), (64, 512), (256, 512))
"""Samples of a batch, and units of a layer."""
HELD = (1_000, 10_000, 100_000, 300_000, 1_000_000)
"""Samples that a memory holds, of which `DRAWN` are drawn."""
DRAWN = 128
Row = dict[str, object]


def sort(shape: tuple[int, int, int], seconds: float) -> Row:
    """The ratio of one shape, values and indices both."""
    rows, elements, taken = shape
    x = torch.randn(rows, elements)
    took = by_turns(
        {
            "sort": lambda: x.argsort(1, descending=True)[:, :taken],
            "topk": lambda: x.topk(taken, 1).indices,
        },
        seconds,
    )
    return {"shape": shape, "threads": torch.get_num_threads(), "topk": took["sort"] / took["topk"]}


def by_inverse(matrix: Tensor, y: Tensor) -> Tensor:
    """The log-likelihood as written in books, but for its constants."""
    return y @ torch.inverse(matrix) @ y + torch.logdet(matrix)


def by_solution(matrix: Tensor, y: Tensor) -> Tensor:
    """The same without the inverse."""
    return y @ torch.linalg.solve(matrix, y) + torch.logdet(matrix)


def by_factor(matrix: Tensor, y: Tensor) -> Tensor:
    """The same by one factor."""
    factor = torch.linalg.cholesky(matrix)
    solved = torch.cholesky_solve(y[:, None], factor)[:, 0]
    return y @ solved + 2 * factor.diagonal().log().sum()


def likelihood(size: int, seconds: float) -> Row:
    """The ratios of one size."""
    made = torch.randn(size, size, dtype=torch.float64)
    matrix = (made @ made.T / size + torch.eye(size)).float().requires_grad_()
    y = torch.randn(size)

    def step(way: Callable[[Tensor, Tensor], Tensor]) -> Callable[[], object]:
        return lambda: torch.autograd.grad(way(matrix, y), matrix)

    ways = {"inverse": by_inverse, "solution": by_solution, "factor": by_factor}
    exact = by_inverse(matrix.detach().double(), y.double())
    for way in ways.values():
        torch.testing.assert_close(way(matrix, y).double(), exact, rtol=1e-3, atol=1e-3)
    took = by_turns({name: step(way) for name, way in ways.items()}, seconds)
    return {
        "size": size,
        "threads": torch.get_num_threads(),
        "solution": took["inverse"] / took["solution"],
        "factor": took["inverse"] / took["factor"],
    }


def gradients(shape: tuple[int, int], seconds: float) -> Row:
    """The ratio of one batch through two layers of a width."""
    samples, width = shape
    weights = [torch.randn(width, width) / width**0.5 for _ in range(2)]
    x, y = torch.randn(samples, width), torch.randn(samples, width)

    def loss(weights: list[Tensor], x: Tensor, y: Tensor) -> Tensor:
        return ((x @ weights[0]).tanh() @ weights[1] - y).square().mean()

    each = torch.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
    ways = {
        "each": lambda: [one.mean(0) for one in each(weights, x, y)],
        "mean": lambda: torch.func.grad(loss)(weights, x, y),
    }
    torch.testing.assert_close(ways["each"](), ways["mean"](), rtol=1e-3, atol=1e-5)
    took = by_turns(ways, seconds)
    return {"batch": shape, "threads": torch.get_num_threads(), "mean": took["each"] / took["mean"]}


def draws(held: int, seconds: float) -> Row:
    """The microseconds for a batch from a memory of one size."""
    samples = [(index, float(index)) for index in range(held)]
    chain = deque(samples)
    took = by_turns(
        {
            "deque": lambda: random.sample(chain, DRAWN),
            "list": lambda: random.sample(samples, DRAWN),
        },
        seconds,
    )
    return {"held": held, **{f"{name} us": 1e6 * time for name, time in took.items()}}


def main(seconds: float) -> None:
    """Measure all, and write the record."""
    torch.manual_seed(0)
    sorts = on_threads(SORTED, lambda shape: sort(shape, seconds))
    solved = on_threads(SOLVED, lambda size: likelihood(size, seconds))
    averaged = on_threads(AVERAGED, lambda shape: gradients(shape, seconds))
    drawn = [draws(held, seconds) for held in HELD]
    summary = {
        "mean": record.spread([float(str(row["mean"])) for row in averaged]),
        "topk": record.spread([float(str(row["topk"])) for row in sorts]),
        "solution": record.spread([float(str(row["solution"])) for row in solved]),
        "factor": record.spread([float(str(row["factor"])) for row in solved]),
        "load average": os.getloadavg()[0],
    }
    record.write("fewer_operations", "python -m benchmarks.fewer_operations",
                 [*sorts, *solved, *averaged, *drawn], summary)  # fmt: skip


if __name__ == "__main__":
    main(seconds_given(0.5))
