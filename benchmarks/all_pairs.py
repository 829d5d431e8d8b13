"""All pairs compared element by element, against a matrix product or `torch.cdist`.

`python -m benchmarks.all_pairs [--seconds 0.5]`: sums of products and of squared differences of
pairs of rows, forward and backward, by turns, on one thread and on all cores, with threads that
sleep while they wait, for numbers of elements on both sides of `seam.probe.products.LEAST`. Times
are medians; a ratio above 1 is one in which the matrix product, or `torch.cdist`, is faster.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from benchmarks.row_lookups import by_turns, on_threads, seconds_given, write_seen
from hotlap.seam.probe import products

SHAPES = (
    (16, 16, 8), (32, 8, 64), (64, 64, 16), (128, 128, 3), (128, 128, 8), (256, 256, 2),
    (256, 256, 3), (128, 128, 32), (256, 64, 128), (256, 256, 32), (256, 256, 128), (1024, 1024, 3),
    (1024, 256, 16), (512, 512, 64),
)  # fmt: skip
"""Rows, rows of the other tensor, features."""


@dataclass(frozen=True)
class Row:
    """What was measured of one shape; `seen`: it is large enough for a profile to name it."""

    shape: tuple[int, int, int]
    threads: int
    seen: bool
    products: float
    distances: float
    seconds: float


def measured(shape: tuple[int, int, int], seconds: float) -> Row:
    """The ratios of one shape."""
    n, m, features = shape
    a = torch.randn(n, features, requires_grad=True)
    b = torch.randn(m, features, requires_grad=True)

    def step(compare: Callable[[], torch.Tensor]) -> Callable[[], object]:
        def run() -> object:
            result = compare()
            return torch.autograd.grad(result, (a, b), torch.ones_like(result))

        return run

    took = by_turns(
        {
            "products": step(lambda: (a[:, None] * b[None]).sum(-1)),
            "matmul": step(lambda: a @ b.T),
            "distances": step(lambda: (a[:, None] - b[None]).square().sum(-1)),
            "cdist": step(lambda: torch.cdist(a, b).square()),
        },
        seconds,
    )
    return Row(
        shape, torch.get_num_threads(), n * m * features >= products.LEAST,
        took["products"] / took["matmul"], took["distances"] / took["cdist"], took["distances"],
    )  # fmt: skip


def main(seconds: float) -> None:
    """Measure all shapes, and write the record."""
    torch.manual_seed(0)
    found = on_threads(SHAPES, lambda shape: measured(shape, seconds))
    ratios: dict[str, Callable[[Row], float]] = {
        "products": lambda row: row.products,
        "distances": lambda row: row.distances,
    }
    write_seen("all_pairs", found, ratios)


if __name__ == "__main__":
    main(seconds_given(0.5))
