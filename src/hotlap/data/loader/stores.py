"""Read batches from a store."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch

from hotlap.common.extras import need
from hotlap.data.errors import SampleError
from hotlap.data.loader.memory import Space
from hotlap.data.loader.plan import Step
from hotlap.data.loader.reading import Fetched
from hotlap.data.order import key
from hotlap.data.store import Store

ATTEMPTS = 16
T = TypeVar("T")
Collate = Callable[[list[Any]], object]
Field = torch.Tensor | list[Any]
"""Of a batch: a tensor where all samples have one shape, else a list with a value for each."""
Shown = tuple[torch.Tensor, *tuple[Field, ...]]
"""Images, and fields of them."""


class _StoreReader:
    """What the readers of a store have in common: its length, its digest, and that it stays."""

    threads = True
    changes = False

    def __init__(self, store: Store, fields: tuple[str, ...]) -> None:
        self._store = store
        self._fields = fields

    def __len__(self) -> int:
        return len(self._store)

    def identity(self) -> str:
        """Return the store's digest."""
        return self._store.digest

    def state(self) -> None:
        """Return nothing: a store does not change."""


class RowReader(_StoreReader):
    """Rows (profile raw), copied straight into the batch."""

    fills = light = True

    def __init__(self, store: Store, fields: tuple[str, ...]) -> None:
        super().__init__(store, fields)
        self._row = store.row
        self._image = self._row.dtype == "|u1" and self._row.shape[2:] == (3,)

    def ahead(self, step: Step) -> None:
        """Let the kernel read ahead."""
        self._store.advise(step.ids)

    def fetch(self, step: Step, space: Space) -> Fetched:
        """Read the rows, and the fields of the samples."""
        rows = space.take((len(step.ids), *self._row.shape), self._row.dtype)
        self._store.rows_into(step.ids, rows.reshape(len(step.ids), -1).view("u1"))
        fields = fields_of(self._store, self._fields, step, space)
        return Fetched((torch.from_numpy(rows), *fields))

    def present(self, value: Shown) -> object:
        """Images as (samples, channels, height, width), channels last in memory."""
        return shown(value) if self._image else _one_or_all(value)


def instead(
    index: int, seed: int, count: int, allowed: bool, read: Callable[[int], T]
) -> tuple[T, int, str]:
    """Read a sample, or the one that the seed picks when it is bad.

    Returns:
        What was read, the sample it is of, and the reason why it is not `index`; else "".
    """
    first = ""
    for attempt in range(ATTEMPTS):
        other = key(seed, index, attempt) % count if attempt else index
        try:
            return read(other), other, first
        except SampleError as error:
            if not allowed:
                raise
            first = first or str(error)
    raise SampleError(f"{first}; so are the {ATTEMPTS - 1} samples picked to replace it")


class RecordReader(_StoreReader):
    """Samples as dictionaries of all their fields (profile records), collated.

    By default numbers, and arrays that are of one size in all samples, are joined to tensors; all
    else to lists.
    """

    fills = light = False

    def __init__(self, store: Store, fields: tuple[str, ...], collate: Collate | None) -> None:
        super().__init__(store, fields)
        self._collate = collate or self._joined

    def ahead(self, step: Step) -> None:
        """Do nothing: records are read one by one."""

    def fetch(self, step: Step, space: Space) -> Fetched:
        """Read and collate."""
        del space
        samples = [self._store.sample(index) for index in step.ids.tolist()]
        if self._fields:
            samples = [{k: v for k, v in each.items() if k in self._fields} for each in samples]
        return Fetched(self._collate(samples))

    def present(self, value: object) -> object:
        """Leave it as it is."""
        return value

    def _joined(self, samples: list[dict[str, object]]) -> dict[str, object]:
        return {
            name: joined([sample[name] for sample in samples], self._store.is_uniform(name))
            for name in samples[0]
        }


def joined(values: list[object], uniform: bool) -> Field:
    """Join the values of a field: to a tensor where all samples are of one size, else to a list."""
    numpy = need("numpy")
    if uniform and len({numpy.shape(value) for value in values}) == 1:
        return torch.from_numpy(numpy.stack(values))
    return [
        torch.from_numpy(value.copy()) if isinstance(value, numpy.ndarray) else value
        for value in values
    ]


def fields_of(store: Store, names: tuple[str, ...], step: Step, space: Space) -> list[Field]:
    """Return fields of a step's samples, each with the samples as its first axis.

    Those of a fixed shape are tensors in `space`; those of variable length are lists.
    """
    return [
        space.put(store.fields[name][step.ids])
        if name in store.fields
        else joined(
            [store.value(index, name) for index in step.ids.tolist()], store.is_uniform(name)
        )
        for name in names
    ]


def shown(value: Shown) -> object:
    """Images first, as (samples, channels, height, width), channels last in memory."""
    images, *rest = value
    return _one_or_all((images.permute(0, 3, 1, 2), *rest))


def _one_or_all(value: Shown) -> object:
    return value if len(value) > 1 else value[0]
