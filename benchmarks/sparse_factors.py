"""Matrix products with a factor of nearly all zeros, against the same ones with a sparse factor.

`python -m benchmarks.sparse_factors [--seconds 0.3]`: forward and backward to the dense factor, by
turns, on one thread and on all cores, with threads that sleep while they wait, on both sides of
`seam.probe.zeros.MOST_KEPT` and `LEAST`. The zeros lie at random, which is the sparse product's
worst case: graphs have theirs in blocks. Times are medians; a ratio above 1 is one in which the
faster of a COO and a CSR factor is faster than the dense one.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import torch

from benchmarks.row_lookups import by_turns, on_threads, seconds_given, write_seen
from hotlap.seam.probe import zeros

SHAPES = tuple(product((256, 512, 2048), (16, 64, 256), (0.02, 0.01, 0.005, 0.002)))
"""Rows of the square factor, features, and the part that is not zero."""


@dataclass(frozen=True)
class Row:
    """What was measured of one shape; `seen`: a profile names it; `counted`: parts of a product."""

    shape: tuple[int, int, float]
    threads: int
    seen: bool
    coo: float
    csr: float
    counted: float
    seconds: float


def measured(shape: tuple[int, int, float], seconds: float) -> Row:
    """The ratios of one shape."""
    n, features, kept = shape
    count = int(kept * n * n)
    factor = torch.zeros(n, n)
    factor.view(-1)[torch.randperm(n * n)[:count]] = torch.rand(count)
    x, gradient = torch.randn(n, features, requires_grad=True), torch.randn(n, features)

    def step(matrix: torch.Tensor) -> Callable[[], object]:
        return lambda: torch.autograd.grad(matrix @ x, x, gradient)

    took = by_turns(
        {
            "dense": step(factor), "coo": step(factor.to_sparse_coo().coalesce()),
            "csr": step(factor.to_sparse_csr()), "count": lambda: zeros.part_kept(factor),
        },
        seconds,
    )  # fmt: skip
    dense = took["dense"]
    return Row(
        shape, torch.get_num_threads(), zeros.part_kept(factor) <= zeros.MOST_KEPT,
        dense / took["coo"], dense / took["csr"], took["count"] / dense, dense,
    )  # fmt: skip


def main(seconds: float) -> None:
    """Measure all shapes, and write the record."""
    warnings.simplefilter("ignore")  # CSR is called beta
    torch.manual_seed(0)
    found = on_threads(SHAPES, lambda shape: measured(shape, seconds))
    write_seen("sparse_factors", found, {"sparse": lambda row: max(row.coo, row.csr)})


if __name__ == "__main__":
    main(seconds_given(0.3))
