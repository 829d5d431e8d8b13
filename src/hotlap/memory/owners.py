"""Who owns a step's memory: parameters, buffers, gradients, optimizer state.

`Meter` counts with it, and so does `hotlap profile`.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from torch import Tensor, nn
from torch.optim import Optimizer

from hotlap.common.nested import tensors
from hotlap.common.ranks import local


class Storages:
    """Adds up the bytes of distinct storages; an owner asked earlier keeps what it shares."""

    def __init__(self, seen: Iterable[int] = ()) -> None:
        self._seen = set(seen)

    def copy(self) -> "Storages":
        """The same storages counted so far, to go on from separately."""
        return Storages(self._seen)

    def bytes_of(self, tensors: Iterable[Tensor]) -> int:
        """Bytes of the storages among these tensors that were not counted before."""
        return sum(map(self.add, tensors))

    def add(self, tensor: Tensor) -> int:
        """Bytes of one tensor's storage; 0 if counted before, or if it has none.

        Of a DTensor those that this rank holds.
        """
        try:
            storage = local(tensor).untyped_storage()
            key, size = storage.data_ptr(), storage.nbytes()
        except (AttributeError, NotImplementedError, RuntimeError):
            return 0
        if not key or key in self._seen:
            return 0
        self._seen.add(key)
        return int(size)


def owned(
    models: Sequence[nn.Module], optimizers: Sequence[Optimizer]
) -> Iterator[tuple[str, Iterable[Tensor]]]:
    """Each owner's tensors; what two own is listed for both and counts for the first.

    Parameters are those of the models and those that only an optimizer knows; state is what an
    optimizer keeps for a parameter, in lists and mappings as well (LBFGS).
    """
    parameters = list(_parameters(models, optimizers))
    yield "parameters", parameters
    yield "buffers", chain.from_iterable(model.buffers() for model in models)
    yield "gradients", (p.grad for p in parameters if p.grad is not None)
    states = (state for optimizer in optimizers for state in optimizer.state.values())
    yield "optimizer state", chain.from_iterable(tensors(state) for state in states)


def owners(
    models: Sequence[nn.Module], optimizers: Sequence[Optimizer]
) -> tuple[dict[str, int], Storages]:
    """Bytes by owner now, and the storages that were counted."""
    storages = Storages()
    return {name: storages.bytes_of(each) for name, each in owned(models, optimizers)}, storages


def _parameters(models: Sequence[nn.Module], optimizers: Sequence[Optimizer]) -> Iterator[Tensor]:
    yield from (p for model in models for p in model.parameters())
    yield from (p for o in optimizers for group in o.param_groups for p in group["params"])
