"""Read batches from any map-style dataset."""

import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.data import default_collate
from torch.utils.data._utils import worker

from hotlap.common.randomness import Streams, attributes, is_generator, unseedable
from hotlap.data.errors import DATA_ERRORS, SampleError
from hotlap.data.loader.memory import Space
from hotlap.data.loader.plan import Step
from hotlap.data.loader.reading import Fetched
from hotlap.data.loader.stores import Collate, instead
from hotlap.data.order import key

HASHED_BYTES = 1 << 16
"""Arrays up to this size are compared by content between epochs, larger ones by identity."""


class DatasetReader:
    """Samples by `dataset[index]`, or batches by its `__getitems__`, then collated.

    Before each sample Python's, NumPy's and torch's global generators, and the generators that the
    dataset keeps or names (see `randomness.generators`), are seeded by (seed, epoch, sample), so
    that random transforms give the same whichever process reads it; a dataset with `__getitems__`
    is seeded once a batch. The caller's streams are left as they were.
    """

    fills = threads = light = False
    changes = True

    def __init__(self, dataset: Any, collate: Collate | None, seed: int, replace_bad: bool) -> None:
        self.dataset = dataset
        self._collate = collate or default_collate
        self._seed = seed
        self._replace = replace_bad
        self._together = getattr(dataset, "__getitems__", None)
        self._streams = Streams(dataset, self._collate)
        if names := unseedable(dataset):
            warnings.warn(
                f"{type(dataset).__name__}{names[0]} draws from the operating system: what it "
                "draws cannot be repeated; use random.Random() for values that follow the seed",
                stacklevel=4,
            )

    def __len__(self) -> int:
        return len(self.dataset)

    def identity(self) -> str:
        """Return the dataset's type."""
        return f"{type(self.dataset).__module__}.{type(self.dataset).__qualname__}"

    def state(self) -> object:
        """Return what changes when the user changes the dataset, as far as its attributes show it.

        What generators draw is no change. Of long lists and large arrays only a replacement shows.
        """
        return tuple((name, _shown(value)) for name, value in attributes(self.dataset))

    def ahead(self, step: Step) -> None:
        """Do nothing: a dataset has no hints."""

    def fetch(self, step: Step, space: Space) -> Fetched:
        """Read and collate."""
        del space
        with self._streams.kept():
            samples, replaced = self._samples(step)
            with _private_memory():
                return Fetched(self._collate(samples), tuple(replaced))

    def present(self, value: object) -> object:
        """Leave it as it is."""
        return value

    def _samples(self, step: Step) -> tuple[list[object], list[tuple[int, str]]]:
        ids, draws = step.ids.tolist(), step.draw_ids.tolist()
        if self._together is not None:
            self._streams.seed(key(self._seed, step.epoch, draws[0]))
            return self._together(ids), []
        samples: list[object] = []
        replaced: list[tuple[int, str]] = []
        for index, draw in zip(ids, draws, strict=True):

            def read(other: int, by: int = draw - index) -> object:
                return self._one(other, key(self._seed, step.epoch, other + by))

            sample, _, why = instead(index, self._seed, len(self), self._replace, read)
            samples.append(sample)
            replaced += [(index, why)] if why else []
        return samples, replaced

    def _one(self, index: int, seed: int) -> object:
        self._streams.seed(seed)
        try:
            return self.dataset[index]
        except DATA_ERRORS:
            raise
        except Exception as error:
            raise SampleError(
                f"sample {index}{self._origin(index)} of {type(self.dataset).__name__} cannot be "
                f"read: {type(error).__name__}: {error}\n\n{_where(error)}"
            ) from error

    def _origin(self, index: int) -> str:
        """Name the file, where the dataset keeps a list of them as torchvision's do."""
        try:
            entry = self.dataset.samples[index]
        except (AttributeError, TypeError, LookupError):
            return ""
        path = entry[0] if isinstance(entry, tuple | list) else entry
        return f" ({path})" if isinstance(path, str) else ""


@contextmanager
def _private_memory() -> Iterator[None]:
    """Keep `default_collate` from allocating in /dev/shm, as it does where it finds a worker."""
    info, worker._worker_info = worker._worker_info, None
    try:
        yield
    finally:
        worker._worker_info = info


def _where(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)[1:]
    return "".join(traceback.format_list(frames)).rstrip()


def _shown(value: object) -> object:
    """Return something small to compare a value by."""
    if isinstance(value, (int, float, str, bytes, bool, type(None))):
        return value
    if is_generator(value):
        return id(value)
    if isinstance(value, torch.Tensor):
        return id(value), value._version
    if hasattr(value, "tobytes") and getattr(value, "nbytes", HASHED_BYTES) < HASHED_BYTES:
        return hash(value.tobytes())
    return id(value), len(value) if isinstance(value, (list, dict, set)) else 0
