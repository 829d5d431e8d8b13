"""DataLoader: which loaders may change, and samples kept in RAM behind the user's dataset."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.data import IterableDataset, get_worker_info
from torch.utils.data._utils.fetch import _MapDatasetFetcher

from hotlap.core.machine import available_memory
from hotlap.seam.moves import Context
from hotlap.seam.patch import load, replaced

DATASETS = 4


def may_have_workers(arguments: dict[str, object]) -> bool:
    """Whether worker processes can serve this loader: a map-style dataset without CUDA tensors."""
    dataset = arguments.get("dataset")
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__getitem__"):
        return False
    values = [*getattr(dataset, "__dict__", {}).values(), *getattr(dataset, "tensors", ())]
    return not any(isinstance(value, torch.Tensor) and value.is_cuda for value in values)


def may_pin(_: dict[str, object]) -> bool:
    """Whether there is a device that copies from pinned memory."""
    return torch.cuda.is_available()


@contextmanager
def cached_dataset(context: Context) -> Iterator[None]:
    """Let loaders without workers read through a cache; `loader.dataset` stays the user's."""
    caches = _Caches(context)

    def make(original: Callable[..., object]) -> object:
        def __init__(  # noqa: N807
            fetcher: _MapDatasetFetcher, dataset: object, *args: object, **kwargs: object
        ) -> None:
            original(fetcher, dataset, *args, **kwargs)
            with context.isolated():
                fetcher.dataset = caches.around(dataset)

        return __init__

    with replaced(_MapDatasetFetcher, "__init__", make):
        try:
            yield
        finally:
            caches.clear()


class _Caches:
    """One cache for each dataset, of the few datasets that were used last."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._make = load("hotlap.data.cached:CachedDataset")
        self._known: OrderedDict[int, Any] = OrderedDict()

    def around(self, dataset: object) -> object:
        if get_worker_info() is not None:
            self._context.inert("worker processes load the data; each would need its own cache")
            return dataset
        if isinstance(dataset, self._make):
            return dataset
        cache = self._known.get(id(dataset))
        if cache is None:
            if not hasattr(dataset, "__len__"):
                self._context.inert("the dataset has no length")
                return dataset
            cache = self._new(dataset)
        self._known.move_to_end(id(dataset))
        cache.renew()
        return cache

    def clear(self) -> None:
        self._known.clear()

    def _new(self, dataset: object) -> Any:
        limit = available_memory() // 2
        kind = type(dataset).__name__
        cache = self._make(
            dataset, ram_limit=limit, whole=True, told=self._context.inert,
            began=lambda: self._context.held(kind),
        )  # fmt: skip
        self._known[id(dataset)] = cache
        while len(self._known) > DATASETS:
            self._known.popitem(last=False)
        return cache
