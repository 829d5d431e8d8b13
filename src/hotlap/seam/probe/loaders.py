"""The script's DataLoaders. What each is like is noted when it is made: it may be gone at the end.

A loader that lives in a function is freed before the program ends, and is not held longer here.
"""

import weakref
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Kind:
    """What a DataLoader is like, and the user's `file:line` that made it."""

    place: str
    workers: int
    persistent: bool
    pinned: bool
    batch_size: int | None
    map_style: bool
    in_memory: bool


@dataclass(frozen=True, eq=False)
class Known:
    """One DataLoader. `loader()` gives it, or None once it is gone."""

    kind: Kind
    loader: "weakref.ref[Any]"


class Loaders:
    """All that were made so far; `kinds` in the order they came in, equal ones once."""

    def __init__(self) -> None:
        self.kinds: dict[Kind, None] = {}
        self._known: weakref.WeakKeyDictionary[Any, Known] = weakref.WeakKeyDictionary()

    def note(self, loader: Any, place: str) -> None:
        """A loader has been made here."""
        kind = _kind(loader, place)
        self.kinds[kind] = None
        self._known[loader] = Known(kind, weakref.ref(loader))

    def known(self, loader: Any) -> Known:
        """What is known of a loader; one that nobody saw made (unpickled) is noted first."""
        if loader not in self._known:
            self.note(loader, "")
        return self._known[loader]

    def facts(self) -> dict[str, Any]:
        """What the techniques' `needs` ask for."""
        kinds = list(self.kinds)
        return {
            "loaders": len(kinds),
            "loader_serial": any(not kind.workers for kind in kinds),
            "loader_workers": max((kind.workers for kind in kinds), default=0),
            "loader_not_persistent": any(k.workers and not k.persistent for k in kinds),
            "map_style": any(kind.map_style for kind in kinds),
            "in_memory": bool(kinds) and all(kind.in_memory for kind in kinds),
            "loader_pinned": any(kind.pinned for kind in kinds),
        }


def _kind(loader: Any, place: str) -> Kind:
    return Kind(
        place=place,
        workers=loader.num_workers,
        persistent=bool(loader.persistent_workers),
        pinned=bool(loader.pin_memory),
        batch_size=loader.batch_size,
        map_style=not isinstance(loader.dataset, torch.utils.data.IterableDataset),
        in_memory=_in_memory(loader.dataset),
    )


def _in_memory(dataset: Any) -> bool:
    """Whether the samples are tensors or arrays that lie in RAM as they are."""
    data = torch.utils.data
    if type(dataset) is data.Subset:
        return _in_memory(dataset.dataset)
    if type(dataset) is data.ConcatDataset:
        return all(map(_in_memory, dataset.datasets))
    return type(dataset) in {data.TensorDataset, list, tuple, torch.Tensor}
