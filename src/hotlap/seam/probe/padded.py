"""How much of the token inputs of a model is padding."""

import sys
from collections.abc import Mapping

import torch
from torch import Tensor

MASK = "attention_mask"
CALLS = 16
"""Calls that are looked at."""
ELEMENTS = 1 << 20
"""Positions of a batch above which it is not looked at."""
SHORTEST = 16
"""Positions a sequence must have: fewer columns of integers are features, not text."""


class Padded:
    """Sums up padding over the first calls; on a device nothing waits for the sums until `facts`.

    A position is padding where the attention mask is 0. Without a mask it is where the id that ends
    the batch's first sequence stands from there to the end.
    """

    def __init__(self) -> None:
        self._calls = 0
        self._sums: list[Tensor] = []

    def see(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
        """A training call of a model with token embeddings is about to begin."""
        if self._calls >= CALLS:
            return
        found = _padding((*args, kwargs))
        if found is not None:
            self._calls += 1
            self._sums.append(_sums(found))

    def facts(self) -> dict[str, object]:
        """The share of positions that are padding, and of columns that hold nothing else.

        `transformers`: whether its tokenizers may have padded them.
        """
        if not self._sums:
            return {}
        padding, of_columns, every = (sum(found) for found in zip(*self._lists(), strict=True))
        return {
            "padded_share": padding / every,
            "padded_columns": of_columns / every,
            "transformers": "transformers" in sys.modules,
        }

    def _lists(self) -> list[list[int]]:
        return [found.tolist() for found in self._sums]


def _padding(values: tuple[object, ...]) -> Tensor | None:
    """Which positions of a batch are padding, (sequences, positions); None where it holds none."""
    named = [value for value in values if isinstance(value, Mapping)]
    mask = next((value[MASK] for value in named if isinstance(value.get(MASK), Tensor)), None)
    if isinstance(mask, Tensor) and _fits(mask):
        return mask.detach().eq(0)
    inside = [inner for value in named for inner in value.values()]
    ids = next((one for one in (*values, *inside) if isinstance(one, Tensor)), None)
    if ids is None or not _fits(ids) or ids.is_floating_point() or ids.dtype == torch.bool:
        return None
    other = ids.detach().ne(ids[:1, -1:])
    return other.flip(1).cumsum(1).flip(1).eq(0) if len(ids) > 1 else None


def _fits(tensor: Tensor) -> bool:
    return tensor.dim() == 2 and tensor.shape[1] >= SHORTEST and 0 < tensor.numel() <= ELEMENTS


def _sums(padding: Tensor) -> Tensor:
    """Padded positions, those in columns without a token, and all positions, (3,)."""
    columns = padding.all(0)
    rows, width = padding.shape
    found = torch.stack([padding.sum(), columns.sum() * rows]) * ~columns.all()
    return torch.cat([found, found.new_full((1,), rows * width)])
