"""The memory of a training step by owner: counted by `hotlap.memory`, activations here."""

from collections.abc import Callable
from typing import Any

import torch


class Saved:
    """Counts the tensors that autograd saves for the backward pass: the activations.

    `total` is the most that was saved between two backward passes, so that micro-batches and
    models that take turns are not added up.
    """

    def __init__(self, known: Any, backwards: Callable[[], int]) -> None:
        self.total = 0
        self._known = known
        self._backwards = backwards
        self._turn = backwards()
        self._seen = known.copy()
        self._sum = 0
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, lambda tensor: tensor)

    def _pack(self, tensor: torch.Tensor) -> torch.Tensor:
        if self._turn != self._backwards():
            self._turn = self._backwards()
            self._seen, self._sum = self._known.copy(), 0
        self._sum += self._seen.add(tensor)
        self.total = max(self.total, self._sum)
        return tensor

    def __enter__(self) -> "Saved":
        self._hooks.__enter__()
        return self

    def __exit__(self, *_: Any) -> None:
        self._hooks.__exit__()
