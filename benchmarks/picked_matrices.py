"""Rows multiplied each by its own copy of a matrix, against the rows of each matrix at once.

`python -m benchmarks.picked_matrices [--seconds 0.3]`: forward and backward, by turns, on one
thread and on all cores, with threads that sleep while they wait, on both sides of what
`seam.probe.matrices` takes for too many copies. `groups` sorts the rows by their matrix,
multiplies each group and puts the results back; `loop` does it with a mask for each matrix. Times
are medians; a ratio above 1 is one in which the faster of both is faster than the copies.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import torch

from benchmarks.row_lookups import by_turns, on_threads, seconds_given, write_seen
from hotlap.seam.probe.matrices import LEAST, LEAST_COPIES

SHAPES = tuple(
    (kinds, copies, width, rows)
    for kinds, copies, width in product((4, 32), (4, 16, 64, 256), (8, 16, 64))
    for rows in (1, 4, 32)
    if kinds * copies * width * width <= 1 << 24
)
"""Matrices, copies of each, rows and columns of a matrix, and rows multiplied by each copy."""


@dataclass(frozen=True)
class Row:
    """What was measured of one shape; `seen`: a profile names it."""

    shape: tuple[int, int, int, int]
    threads: int
    seen: bool
    groups: float
    loop: float
    seconds: float


def measured(shape: tuple[int, int, int, int], seconds: float) -> Row:
    """The ratios of one shape."""
    kinds, copies, width, rows = shape
    number = kinds * copies
    weight = torch.randn(kinds, width, width, requires_grad=True)
    x = torch.randn(number, rows, width, requires_grad=True)
    kind = torch.randint(0, kinds, (number,))
    gradient = torch.randn(number, rows, width)

    def copied() -> torch.Tensor:
        return torch.bmm(x, weight[kind])

    def groups() -> torch.Tensor:
        order = kind.argsort()
        parts = x.index_select(0, order).split(torch.bincount(kind, minlength=kinds).tolist())
        made = torch.cat([part @ weight[one] for one, part in enumerate(parts)])
        return made.index_select(0, order.argsort())

    def loop() -> torch.Tensor:
        made = x.new_zeros(number, rows, width)
        for one in range(kinds):
            mask = kind == one
            made[mask] = x[mask] @ weight[one]
        return made

    def step(call: Callable[[], torch.Tensor]) -> Callable[[], object]:
        return lambda: torch.autograd.grad(call(), (x, weight), gradient)

    torch.testing.assert_close(groups(), copied(), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(loop(), copied(), atol=1e-4, rtol=1e-4)
    took = by_turns({"copied": step(copied), "groups": step(groups), "loop": step(loop)}, seconds)
    elements = number * width * width
    seen = copies >= LEAST_COPIES and elements >= LEAST and rows == 1
    plain = took["copied"]
    return Row(
        shape, torch.get_num_threads(), seen, plain / took["groups"], plain / took["loop"], plain
    )


def main(seconds: float) -> None:
    """Measure all shapes, and write the record."""
    torch.manual_seed(0)
    found = on_threads(SHAPES, lambda shape: measured(shape, seconds))
    write_seen("picked_matrices", found, {"grouped": lambda row: max(row.groups, row.loop)})


if __name__ == "__main__":
    main(seconds_given(0.3))
