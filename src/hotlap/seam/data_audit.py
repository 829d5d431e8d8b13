"""What a training's data were in a race: random draws, state in the dataset, the samples given.

Parity needs it where a technique changes which process reads a sample: only a dataset that draws
random numbers may then give other batches, and even so each sample has to come as often as before.
All of this is looked at in the first batches, while a race still settles.
"""

import os
import random
import sys
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch.utils.data import DataLoader
from torch.utils.data._utils import fetch as fetchers
from torch.utils.data.dataloader import _BaseDataLoaderIter

from hotlap.common.randomness import attributes, generator_state, is_generator, same
from hotlap.seam.patch import replaced
from hotlap.seam.wire import Wire

CLOSELY = 32
"""Batches of a loader that are checked one by one; of the later ones every `EVERY`-th is."""
EVERY = 64
STATE_AT = (0, 1, 7)
"""The fetches around which the dataset's attributes are compared."""
MOST_SAMPLES = 4096
ELEMENTS = 64
"""Elements of a sample that its checksum is made of, spread evenly over it."""
MOST_ATTRIBUTES = 256
MOST_BYTES = 1 << 14
PLAIN = (int, float, str, bytes, bool, complex, type(None))


class DataAudit:
    """Follows the DataLoaders of one process; loader workers report by themselves."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._pid = os.getpid()
        self._batches: list[dict[str, object]] = []
        self._loaders: dict[int, int] = {}
        self._epochs: dict[int, int] = {}
        self._samples = 0
        self._known: set[str] = set()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Follow fetches, indices and batches."""
        with (
            replaced(fetchers._MapDatasetFetcher, "fetch", self._fetch),
            replaced(fetchers._IterableDatasetFetcher, "fetch", self._fetch),
            replaced(_BaseDataLoaderIter, "_next_index", self._next_index),
            replaced(_BaseDataLoaderIter, "__next__", self._next),
            replaced(DataLoader, "__iter__", self._iter),
        ):
            yield

    def flush(self) -> None:
        """Send the batches that were seen since."""
        if self._batches:
            self._wire.send("data", batches=self._batches)
            self._batches = []

    def _fetch(self, original: Callable[..., object]) -> object:
        def fetch(fetcher: fetchers._BaseDatasetFetcher, index: object) -> object:
            number = _count(fetcher)
            if number >= CLOSELY and number % EVERY:
                return original(fetcher, index)
            before = _streams()
            state = _state(fetcher.dataset) if number in STATE_AT else None
            result = original(fetcher, index)
            with suppress(Exception):  # an odd dataset is the program's affair
                self._note("draws", _drawn(before))
                if state is not None:
                    self._note("state", _changed(state, _state(fetcher.dataset)))
            return result

        return fetch

    def _next_index(self, original: Callable[..., object]) -> object:
        """The sampler's own draws, after the first batch of an epoch: it may seed itself there."""

        def next_index(iterator: object) -> object:
            number = _count(iterator)
            check = 0 < number < CLOSELY
            before = _streams() if check else None
            index = original(iterator)
            if before is not None:
                self._note("draws", _drawn(before))
            if self._samples < MOST_SAMPLES:
                iterator.__dict__.setdefault("_hotlap_indices", deque()).append(index)
            return index

        return next_index

    def _iter(self, original: Callable[..., Any]) -> object:
        def begin(loader: torch.utils.data.DataLoader[object]) -> object:
            iterator = original(loader)
            with suppress(Exception):
                number = self._loaders.setdefault(id(loader), len(self._loaders))
                self._epochs[number] = self._epochs.get(number, -1) + 1
                iterator._hotlap_epoch = (number, self._epochs[number])
                if getattr(iterator, "_hotlap_reused", False):  # persistent workers: the same one
                    iterator._hotlap_indices = _not_yet_delivered(iterator)
                iterator._hotlap_reused = True
            return iterator

        return begin

    def _next(self, original: Callable[..., object]) -> object:
        def advance(iterator: object) -> object:
            try:
                batch = original(iterator)
            except StopIteration:
                self._ended(iterator)
                raise
            if self._samples < MOST_SAMPLES and os.getpid() == self._pid:
                with suppress(Exception):
                    self._delivered(iterator, batch)
            return batch

        return advance

    def _delivered(self, iterator: Any, batch: object) -> None:
        indices = iterator.__dict__.get("_hotlap_indices")
        index = indices.popleft() if indices and getattr(iterator, "_in_order", True) else None
        number, epoch = iterator._hotlap_epoch
        record = {"loader": number, "epoch": epoch, "indices": _plain_indices(index)}
        record |= checksums(batch)
        self._samples += record["size"]
        self._batches.append(record)

    def _ended(self, iterator: object) -> None:
        at = iterator.__dict__.get("_hotlap_epoch")
        if at is not None and self._samples < MOST_SAMPLES:
            self._batches.append({"loader": at[0], "epoch": at[1], "end": True})

    def _note(self, kind: str, found: list[str]) -> None:
        new = [name for name in found if f"{kind} {name}" not in self._known]
        if new:
            self._known.update(f"{kind} {name}" for name in new)
            self._wire.send("data", **{kind: new})


def _count(owner: object) -> int:
    """How often this was asked of the object before."""
    number: int = owner.__dict__.get("_hotlap_calls", 0)
    owner.__dict__["_hotlap_calls"] = number + 1
    return number


def _not_yet_delivered(iterator: object) -> "deque[object]":
    """Of the indices given out so far, those of the epoch that begins: the latest ones."""
    given = iterator.__dict__.get("_hotlap_indices", deque())
    left = getattr(iterator, "_send_idx", 0) - getattr(iterator, "_rcvd_idx", 0)
    return deque(list(given)[-left:] if left else [])


def _streams() -> dict[str, object]:
    numpy = sys.modules.get("numpy")
    found = {"torch": torch.get_rng_state(), "random": random.getstate()}
    if numpy is not None and hasattr(numpy, "random"):
        state = numpy.random.get_state(legacy=False)["state"]
        found["numpy"] = (state["pos"], state["key"].tobytes())
    return found


def _drawn(before: dict[str, object]) -> list[str]:
    now = _streams()
    return [name for name, state in before.items() if not same(state, now[name])]


def _state(dataset: object) -> dict[str, object]:
    """Checksums of the numbers, words, generators and small arrays that a dataset is made of."""
    found: dict[str, object] = {}
    for path, value in attributes(dataset):
        if len(found) >= MOST_ATTRIBUTES:
            break
        if isinstance(value, PLAIN):
            found[path[1:]] = value
        elif is_generator(value):
            found[path[1:]] = zlib.crc32(repr(generator_state(value)).encode())
        elif isinstance(value, torch.Tensor):
            if value.nbytes < MOST_BYTES:
                found[path[1:]] = zlib.crc32(value.detach().cpu().numpy().tobytes())
        elif hasattr(value, "tobytes") and getattr(value, "nbytes", MOST_BYTES) < MOST_BYTES:
            found[path[1:]] = zlib.crc32(value.tobytes())
    return found


def _changed(before: dict[str, object], after: dict[str, object]) -> list[str]:
    """Attributes that have another value; what is added or first filled is a cache."""
    return [
        name
        for name, value in before.items()
        if value is not None and name in after and after[name] != value
    ]


def _plain_indices(index: object) -> list[int] | None:
    entries = index if isinstance(index, (list, tuple)) else [index]
    found = [int(i) for i in entries if hasattr(i, "__index__")]
    return found if len(found) == len(entries) else None


def checksums(batch: object) -> dict[str, object]:
    """Size of a batch, and of each of its samples: input checksum, label checksum, input mean.

    The input is the first tensor with the largest sample; the label the next one, if any.
    """
    tensors = list(_tensors(batch))
    size = max((len(t) for t in tensors), default=0)
    rows = [t for t in tensors if len(t) == size]
    if not rows:
        return {"size": size, "inputs": [], "labels": [], "means": []}
    largest = max(range(len(rows)), key=lambda at: rows[at][0].numel())
    inputs, means = _rows(rows[largest])
    labels = next((row for at, row in enumerate(rows) if at != largest), None)
    return {
        "size": size,
        "inputs": inputs,
        "means": means,
        "labels": _rows(labels)[0] if labels is not None else [],
    }


def _rows(tensor: torch.Tensor) -> tuple[list[int], list[float]]:
    flat = tensor.detach().reshape(len(tensor), -1)
    some = flat[:, :: max(1, flat.shape[1] // ELEMENTS)].to("cpu", torch.float64).contiguous()
    return [zlib.crc32(row.tobytes()) for row in some.numpy()], some.mean(1).tolist()


def _tensors(value: object, depth: int = 3) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        if value.dim() and value.numel() and not value.is_complex():
            yield value
    elif depth and isinstance(value, (list, tuple, dict)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _tensors(inner, depth - 1)
