"""How many samples a DataLoader drew for a batch, whatever dimension of the batch they lie in.

A batch's first dimension is time in a sequence-first batch and nodes in a batch of graphs, so the
indices that the loader asked its sampler for are counted instead.
"""

from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager
from typing import Any

from torch.utils.data.dataloader import _BaseDataLoaderIter

from hotlap.seam.patch import replaced

_SIZES = "_hotlap_batch_sizes"


@contextmanager
def counting_indices() -> Iterator[None]:
    """Note how many samples each batch was drawn for, until the context ends."""
    with replaced(_BaseDataLoaderIter, "_next_index", _noting):
        yield


def _noting(original: Callable[..., object]) -> object:
    def _next_index(iterator: Any) -> object:
        index = original(iterator)
        if iterator._auto_collation and isinstance(index, Sized):
            # workers are asked ahead: their requests are numbered, a new epoch begins at 0 again
            sizes = iterator.__dict__.setdefault(_SIZES, {})
            sizes[getattr(iterator, "_send_idx", 0)] = len(index)
        return index

    return _next_index


def samples_drawn(iterator: object) -> int:
    """Count the samples of the batch that `iterator` has just yielded; 0: not known.

    Where the dataset itself yields batches (`batch_size=None`), nothing tells.
    """
    last: int = getattr(iterator, "_rcvd_idx", 1) - 1
    sizes: dict[int, int] = getattr(iterator, _SIZES, {})
    return sizes.pop(last, 0)
