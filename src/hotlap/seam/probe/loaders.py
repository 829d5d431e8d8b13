"""The script's DataLoaders. What each is like is noted when it is made: it may be gone at the end.

A loader that lives in a function is freed before the program ends, and is not held longer here.
"""

import os
import sys
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.utils.data import DataLoader

from hotlap.common.randomness import Streams, same
from hotlap.seam.process import rank_and_world

FETCHES_COMPARED = 4
"""Batches of each dataset around which the random number generators are compared."""


@dataclass(frozen=True)
class Kind:
    """What a DataLoader is like, and the user's `file:line` that made it."""

    place: str
    workers: int
    ahead: int | None
    persistent: bool
    pinned: bool
    batch_size: int | None
    map_style: bool
    in_memory: bool
    by_epoch: bool


@dataclass(frozen=True, eq=False)
class Known:
    """One DataLoader, and the identity of its dataset. `loader()`: None once it is gone."""

    kind: Kind
    loader: "weakref.ref[DataLoader[object]]"
    dataset: int

    def in_place_of(self, other: "Known") -> bool:
        """Whether it was made where another one was, for the same dataset or once that was gone."""
        same = self.dataset == other.dataset or other.loader() is None
        return self is not other and self.kind == other.kind and same


class Loaders:
    """Those that were made, by identity: how a user's class compares is its own affair."""

    def __init__(self) -> None:
        self._known: dict[int, Known] = {}
        self._used: dict[Kind, None] = {}
        self._made: set[tuple[Kind, int]] = set()
        self._read: dict[Known, None] = {}
        self._rebuilt: set[Kind] = set()
        self._restarted = False
        self._fetched: Counter[int] = Counter()
        self._drawing: set[int] = set()

    def note(self, loader: DataLoader[object], place: str) -> None:
        """A loader has been made here."""
        key = id(loader)
        kind = _kind(loader, place)
        gone = weakref.ref(loader, lambda _: self._known.pop(key, None))
        self._known[key] = Known(kind, gone, id(loader.dataset))
        self._made.add((kind, id(loader.dataset)))

    def known(self, loader: DataLoader[object]) -> Known:
        """What is known of a loader; one that nobody saw made (unpickled) is noted first."""
        if id(loader) not in self._known:
            self.note(loader, "")
        return self._known[id(loader)]

    def use(self, known: Known) -> None:
        """The training, or an evaluation within it, takes batches of this one."""
        self._used[known.kind] = None

    def begin(self, known: Known) -> None:
        """An iterator of this one begins, after the training has."""
        self.use(known)
        rebuilt = any(known.in_place_of(other) for other in self._read)
        if rebuilt:
            self._rebuilt.add(known.kind)
        again = rebuilt or (known in self._read and not known.kind.persistent)
        self._restarted = self._restarted or (again and known.kind.workers > 0)

    def read(self, known: Known) -> None:
        """It has given a batch."""
        self._read[known] = None

    def fetched(self, dataset: object, fetch: Callable[[], object]) -> object:
        """Read a batch in this process; whether that draws random numbers is noted."""
        key = id(dataset)
        if key in self._drawing or self._fetched[key] >= FETCHES_COMPARED:
            return fetch()
        self._fetched[key] += 1
        streams = Streams(dataset)
        before = streams.state()
        batch = fetch()
        if not same(before, streams.state()):
            self._drawing.add(key)
        return batch

    def draws(self, known: Known | None) -> bool:
        """Whether reading a batch of such a loader's dataset was seen to draw random numbers."""
        return known is not None and any((known.kind, key) in self._made for key in self._drawing)

    @property
    def kinds(self) -> list[Kind]:
        """Of those that were used, and of those that are still there; equal ones once."""
        return list(self._used | {known.kind: None for known in self._known.values()})

    def facts(self, feeds: Known | None) -> dict[str, object]:
        """What the techniques' `needs` ask for; `loaders` counts kinds, `feeds` feeds the training.

        Of epochs it is asked where loaders have workers; where none has, what it would be with.
        A loader without workers that serves the evaluation alone says nothing of the wait for data.
        """
        kinds = self.kinds
        feeding = [feeds.kind] if feeds else kinds
        serving = [kind for kind in self._used if kind.workers] or list(self._used)
        cores = len(os.sched_getaffinity(0))
        return {
            "loaders": len(kinds),
            "loader_serial": any(not kind.workers for kind in feeding),
            "fed_by_workers": any(kind.workers for kind in feeding),
            "loader_workers": max((kind.workers for kind in kinds), default=0),
            "two_batches_ahead": any(kind.ahead in (None, 2) for kind in serving),
            "crowded_workers": any(kind.workers > cores for kind in kinds),
            "loader_not_persistent": not all(kind.persistent for kind in serving),
            "loader_rebuilt": any(kind in self._rebuilt for kind in serving),
            "workers_restarted": self._restarted,
            "dataset_by_epoch": any(kind.by_epoch for kind in kinds),
            "map_style": any(kind.map_style for kind in kinds),
            "in_memory": bool(kinds) and all(kind.in_memory for kind in kinds),
            "loader_pinned": any(kind.pinned for kind in kinds),
        }


def dispatched() -> bool:
    """Whether Accelerate has rank 0 read the batches of all ranks, and send them."""
    state = sys.modules.get("accelerate.state")
    if state is None:
        return False
    loader = state.GradientState().active_dataloader
    kind = "DataLoaderDispatcher"
    return any(base.__name__ == kind for base in type(loader).__mro__) and rank_and_world()[1] > 1


def _kind(loader: DataLoader[object], place: str) -> Kind:
    return Kind(
        place=place,
        workers=loader.num_workers,
        ahead=loader.prefetch_factor,
        persistent=bool(loader.persistent_workers),
        pinned=bool(loader.pin_memory),
        batch_size=loader.batch_size,
        map_style=not isinstance(loader.dataset, torch.utils.data.IterableDataset),
        in_memory=_in_memory(loader.dataset),
        by_epoch=_by_epoch(loader.dataset),
    )


def _by_epoch(dataset: object) -> bool:
    """Whether a `set_epoch` changes the dataset, which workers that stay do not see.

    That of Hugging Face's datasets lies in memory that processes share.
    """
    return (
        hasattr(dataset, "set_epoch") and type(dataset).__module__.partition(".")[0] != "datasets"
    )


def _in_memory(dataset: object) -> bool:
    """Whether the samples are tensors or arrays that lie in RAM as they are."""
    data = torch.utils.data
    if type(dataset) is data.Subset:
        return _in_memory(dataset.dataset)
    if type(dataset) is data.ConcatDataset:
        return all(map(_in_memory, dataset.datasets))
    return type(dataset) in {data.TensorDataset, list, tuple, torch.Tensor}
