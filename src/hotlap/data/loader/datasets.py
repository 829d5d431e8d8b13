"""Read batches from any map-style dataset."""

import random
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.data import default_collate

from hotlap.data.errors import DATA_ERRORS, SampleError
from hotlap.data.loader.memory import Space
from hotlap.data.loader.plan import Step
from hotlap.data.loader.reading import Fetched
from hotlap.data.loader.stores import instead
from hotlap.data.order import key

Collate = Callable[[list[Any]], Any]


class DatasetReader:
    """Samples by `dataset[index]`, or batches by its `__getitems__`, then collated.

    Before each sample Python's, NumPy's and torch's generators are seeded by (seed, epoch, sample),
    so that random transforms give the same whichever process reads it; a dataset with
    `__getitems__` is seeded once a batch. The caller's streams are left as they were.
    """

    fills = threads = light = False
    changes = True

    def __init__(self, dataset: Any, collate: Collate | None, seed: int, replace_bad: bool) -> None:
        self._dataset = dataset
        self._collate = collate or default_collate
        self._seed = seed
        self._replace = replace_bad
        self._together = getattr(dataset, "__getitems__", None)

    def __len__(self) -> int:
        return len(self._dataset)

    def identity(self) -> str:
        """Return the dataset's type."""
        return f"{type(self._dataset).__module__}.{type(self._dataset).__qualname__}"

    def ahead(self, step: Step) -> None:
        """Do nothing: a dataset has no hints."""

    def fetch(self, step: Step, space: Space) -> Fetched:
        """Read and collate."""
        del space
        with _streams_kept():
            samples, replaced = self._samples(step)
            return Fetched(self._collate(samples), tuple(replaced))

    def present(self, value: Any) -> Any:
        """Leave it as it is."""
        return value

    def _samples(self, step: Step) -> tuple[list[Any], list[tuple[int, str]]]:
        ids = step.ids.tolist()
        if self._together is not None:
            _seed(key(self._seed, step.epoch, ids[0]))
            return self._together(ids), []
        samples, replaced = [], []
        for index in ids:
            sample, _, why = instead(
                index, self._seed, len(self), self._replace, lambda i: self._one(i, step.epoch)
            )
            samples.append(sample)
            replaced += [(index, why)] if why else []
        return samples, replaced

    def _one(self, index: int, epoch: int) -> Any:
        _seed(key(self._seed, epoch, index))
        try:
            return self._dataset[index]
        except DATA_ERRORS:
            raise
        except Exception as error:
            raise SampleError(
                f"sample {index}{self._origin(index)} of {type(self._dataset).__name__} cannot be "
                f"read: {type(error).__name__}: {error}\n\n{_where(error)}"
            ) from error

    def _origin(self, index: int) -> str:
        """Name the file, where the dataset keeps a list of them as torchvision's do."""
        try:
            entry = self._dataset.samples[index]
        except (AttributeError, TypeError, LookupError):
            return ""
        path = entry[0] if isinstance(entry, tuple | list) else entry
        return f" ({path})" if isinstance(path, str) else ""


def _where(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)[1:]
    return "".join(traceback.format_list(frames)).rstrip()


def _seed(value: int) -> None:
    torch.default_generator.manual_seed(value >> 1)
    random.seed(value)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(value & 0xFFFFFFFF)


@contextmanager
def _streams_kept() -> Iterator[None]:
    numpy = sys.modules.get("numpy")
    before = torch.get_rng_state(), random.getstate(), numpy and numpy.random.get_state()
    try:
        yield
    finally:
        torch.set_rng_state(before[0])
        random.setstate(before[1])
        if numpy:
            numpy.random.set_state(before[2])
