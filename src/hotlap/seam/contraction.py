"""The order in which `torch.einsum` multiplies its operands."""

import math
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import combinations

import torch

from hotlap.common.plain import PLAIN

MOST = 6
"""Operands up to which all orders are tried."""
WORTH = 1.5
"""Times fewer multiplications from which another order is taken."""
_EQUATION = re.compile(r"[A-Za-z]*(?:,[A-Za-z]*)+(?:->[A-Za-z]*)?")

Path = tuple[int, ...]
"""Pairs of positions in a row: each pair is taken out, and its product put at the end."""
Indices = frozenset[str]


def serves_einsum(equation: object, *operands: object, **options: object) -> bool:
    """Whether another order of a call's operands takes far fewer multiplications.

    Not where opt_einsum is installed: torch asks it for the order then.
    """
    if not isinstance(equation, str) or len(operands) < 3 or options:
        return False
    tensors = [one for one in operands if isinstance(one, torch.Tensor) and type(one) in PLAIN]
    if len(tensors) < len(operands) or torch.backends.opt_einsum.is_available():
        return False
    return _path(equation, tensors) is not None


def einsum(_: Callable[..., object]) -> Callable[..., object]:
    """Multiply the operands in the best order, where it serves the call."""

    def ordered(equation: str, *operands: torch.Tensor) -> object:
        return torch._VF.einsum(equation, operands, path=_path(equation, operands))  # type: ignore[attr-defined]

    return ordered


def _path(equation: str, operands: Sequence[torch.Tensor]) -> Path | None:
    return best_path(equation, tuple(tuple(one.shape) for one in operands))


@lru_cache(maxsize=1024)
def best_path(equation: str, shapes: tuple[tuple[int, ...], ...]) -> Path | None:
    """The order of fewest multiplications; None where the order as written is about as good.

    Args:
        equation: with commas, letters and maybe an arrow, without an ellipsis.
        shapes: those of the operands.
    """
    equation = equation.replace(" ", "")
    terms, _, output = equation.partition("->")
    operands = [frozenset(term) for term in terms.split(",")]
    known = 2 < len(operands) <= MOST and _EQUATION.fullmatch(equation)
    if not known or [*map(len, terms.split(","))] != [*map(len, shapes)]:
        return None
    if "->" not in equation:
        output = "".join(letter for letter in set(terms) if terms.count(letter) == 1)
    sizes = {
        letter: size
        for term, shape in zip(terms.split(","), shapes, strict=True)
        for letter, size in zip(term, shape, strict=True)
        if size != 1
    }
    kept = frozenset(output)
    written, (best, path) = _as_written(operands, kept, sizes), _cheapest(operands, kept, sizes)
    return path if written > WORTH * best else None


def _cheapest(
    operands: list[Indices], output: Indices, sizes: dict[str, int]
) -> tuple[float, Path]:
    """The fewest multiplications, and the order that takes them."""
    if len(operands) == 1:
        return 0.0, ()
    orders = []
    for pair in combinations(range(len(operands)), 2):
        cost, left = _product(operands, pair, output, sizes)
        rest, path = _cheapest(left, output, sizes)
        orders.append((cost + rest, (*pair, *path)))
    return min(orders)


def _as_written(operands: list[Indices], output: Indices, sizes: dict[str, int]) -> float:
    """What it takes from the left to the right."""
    total = 0.0
    while len(operands) > 1:
        cost, left = _product(operands, (0, 1), output, sizes)
        total, operands = total + cost, [left[-1], *left[:-1]]
    return total


def _product(
    operands: list[Indices], pair: tuple[int, int], output: Indices, sizes: dict[str, int]
) -> tuple[float, list[Indices]]:
    """The multiplications of a pair, and the operands after it: its product is the last."""
    both = operands[pair[0]] | operands[pair[1]]
    rest = [one for at, one in enumerate(operands) if at not in pair]
    kept = both & output.union(*rest)
    return float(math.prod(sizes.get(letter, 1) for letter in both)), [*rest, kept]
