"""The what-if races: replay what a phase delivered once, so that the phase costs nothing."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch.utils.data import DataLoader

from hotlap.seam.patch import replaced

if TYPE_CHECKING:
    from hotlap.seam.moves import Context

REPLAYED = 8


@contextmanager
def data_free(context: "Context") -> Iterator[None]:
    """Every loader yields its first few batches again and again, an epoch of its usual length."""

    def make(original: Callable[..., Iterator[object]]) -> object:
        def __iter__(loader: DataLoader[object]) -> Iterator[object]:  # noqa: N807
            kept = loader.__dict__.setdefault("_hotlap_replay", [])
            length = _length(loader)
            if len(kept) < min(REPLAYED, length):
                for batch in original(loader):
                    kept.append(batch)
                    yield batch
                    if len(kept) >= REPLAYED:
                        break
                context.held()
                length -= len(kept)
            for index in range(length):
                yield kept[index % len(kept)]

        return __iter__

    with replaced(DataLoader, "__iter__", make):
        yield


def _length(loader: DataLoader[object]) -> int:
    try:
        return len(loader)
    except TypeError:
        return 1 << 30


@contextmanager
def copies_free(context: "Context") -> Iterator[None]:
    """A host-to-device copy returns what the last copy of that shape and type brought."""
    brought: dict[object, torch.Tensor] = {}

    def make(original: Callable[..., torch.Tensor]) -> object:
        def copy(tensor: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor:
            if not tensor.is_cpu or tensor.requires_grad:
                return original(tensor, *args, **kwargs)
            key = (tensor.shape, tensor.dtype, args, tuple(kwargs.items()))
            if key not in brought:
                result = original(tensor, *args, **kwargs)
                if not result.is_cuda:
                    return result
                brought[key] = result
                context.held()
            return brought[key]

        return copy

    with replaced(torch.Tensor, "to", make), replaced(torch.Tensor, "cuda", make):
        yield
