"""Who owns the memory of a training step: parameters, gradients, optimizer state, activations."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

import torch
from torch.nn import Module
from torch.optim.optimizer import Optimizer


class Storages:
    """Adds up the bytes of distinct storages; an owner asked earlier keeps what it shares."""

    def __init__(self, seen: Iterable[int] = ()) -> None:
        self._seen = set(seen)

    def copy(self) -> "Storages":
        """The same storages counted so far, to go on from separately."""
        return Storages(self._seen)

    def bytes_of(self, tensors: Iterable[Any]) -> int:
        """Bytes of the storages among these tensors that were not counted before."""
        return sum(map(self.add, tensors))

    def add(self, tensor: Any) -> int:
        """Bytes of one tensor's storage; 0 if counted before, or if it has none."""
        try:
            storage = tensor.untyped_storage()
            key, size = storage.data_ptr(), storage.nbytes()
        except (AttributeError, NotImplementedError, RuntimeError):
            return 0
        if not key or key in self._seen:
            return 0
        self._seen.add(key)
        return int(size)


def owners(roots: list[Module], optimizers: list[Optimizer]) -> tuple[dict[str, int], Storages]:
    """Bytes by owner at the end of a step, while the gradients are still there."""
    storages = Storages()
    parameters = list(_parameters(roots, optimizers))
    state = (v for o in optimizers for s in o.state.values() for v in _values(s))
    found = {
        "parameters": storages.bytes_of(parameters),
        "buffers": storages.bytes_of(chain.from_iterable(r.buffers() for r in roots)),
        "gradients": storages.bytes_of(p.grad for p in parameters if p.grad is not None),
        "optimizer state": storages.bytes_of(state),
    }
    return found, storages


def _parameters(roots: list[Module], optimizers: list[Optimizer]) -> Iterator[torch.Tensor]:
    yield from (p for root in roots for p in root.parameters())
    yield from (p for o in optimizers for group in o.param_groups for p in group["params"])


def _values(state: Any) -> Iterator[torch.Tensor]:
    """Tensors in an optimizer's state of one parameter, one level of lists included (LBFGS)."""
    for value in state.values() if isinstance(state, dict) else ():
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from (item for item in value if isinstance(item, torch.Tensor))


class Saved:
    """Counts the tensors that autograd saves for the backward pass: the activations.

    `total` is the most that was saved between two backward passes, so that micro-batches and
    models that take turns are not added up.
    """

    def __init__(self, known: Storages, backwards: Callable[[], int]) -> None:
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
