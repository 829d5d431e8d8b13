"""Read batches from a store."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from hotlap.data.decode import Decoder
from hotlap.data.decode.scratch import Scratch
from hotlap.data.errors import SampleError
from hotlap.data.extras import need
from hotlap.data.loader.memory import Space
from hotlap.data.loader.plan import Step
from hotlap.data.loader.reading import Fetched
from hotlap.data.order import Draws, key
from hotlap.data.store import Store
from hotlap.data.transforms.base import Geometry

ATTEMPTS = 16


class RowReader:
    """Rows (profile raw), copied straight into the batch."""

    fills = threads = light = True
    changes = False

    def __init__(self, store: Store, fields: tuple[str, ...]) -> None:
        self._store = store
        self._fields = fields
        self._row = store.row
        self._image = self._row.dtype == "|u1" and self._row.shape[2:] == (3,)

    def __len__(self) -> int:
        return len(self._store)

    def identity(self) -> str:
        """Return the store's digest."""
        return self._store.digest

    def ahead(self, step: Step) -> None:
        """Let the kernel read ahead."""
        self._store.advise(step.ids)

    def fetch(self, step: Step, space: Space) -> Fetched:
        """Read the rows, and the fields of the samples."""
        rows = space.take((len(step.ids), *self._row.shape), self._row.dtype)
        self._store.rows_into(step.ids, rows.reshape(len(step.ids), -1).view("u1"))
        return Fetched((torch.from_numpy(rows), *_fields(self._store, self._fields, step)))

    def present(self, value: Any) -> Any:
        """Images as (samples, channels, height, width), channels last in memory."""
        return _images(value) if self._image else _one_or_all(value)


class ImageReader:
    """Encoded images: decoded, brought to one size, and written into the batch."""

    fills = threads = True
    light = changes = False

    def __init__(
        self,
        store: Store,
        fields: tuple[str, ...],
        geometry: tuple[Geometry, ...],
        decoder: Decoder,
        seed: int,
        replace_bad: bool,
    ) -> None:
        self._store = store
        self._fields = fields
        self._geometry = geometry
        self._decoder = decoder
        self._scratch = Scratch()
        self._seed = seed
        self._replace = replace_bad

    def __len__(self) -> int:
        return len(self._store)

    def identity(self) -> str:
        """Return the store's digest."""
        return self._store.digest

    def ahead(self, step: Step) -> None:
        """Let the kernel read ahead."""
        self._store.advise(step.ids)

    def fetch(self, step: Step, space: Space) -> Fetched:
        """Decode a batch."""
        draws = Draws(self._seed, step.epoch, step.ids)
        ids, replaced, batch = list(step.ids.tolist()), [], None
        for place, index in enumerate(ids):
            image, ids[place], why = self._image(index, draws.one(place))
            replaced += [(index, why)] if why else []
            if batch is None:
                batch = space.take((len(ids), *image.shape), "u1")
            _put(batch, place, image, self._store, index)
        fields = _fields(self._store, self._fields, replace(step, ids=need("numpy").array(ids)))
        return Fetched((torch.from_numpy(batch), *fields), tuple(replaced))

    def present(self, value: Any) -> Any:
        """Images as (samples, channels, height, width), channels last in memory."""
        return _images(value)

    def _image(self, index: int, draws: Draws) -> tuple[Any, int, str]:
        """Return (image, the sample it is of, why another was replaced by it)."""
        return instead(
            index, self._seed, len(self), self._replace, lambda other: self._decoded(other, draws)
        )

    def _decoded(self, index: int, draws: Draws) -> Any:
        data = self._store.payload(index)
        try:
            pixels = self._decoder(data, "it", self._scratch)
        except SampleError as error:
            why = str(error).removeprefix("it ")
            raise SampleError(
                f"sample {index} ({self._store.name(index)}) of {self._store.path} {why}"
            ) from None
        image = torch.from_numpy(pixels).permute(2, 0, 1)
        for step in self._geometry:
            image = step.image(image, draws)
        return image.permute(1, 2, 0).numpy()


def instead(
    index: int, seed: int, count: int, allowed: bool, read: Callable[[int], Any]
) -> tuple[Any, int, str]:
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


def _put(batch: Any, place: int, image: Any, store: Store, index: int) -> None:
    if image.shape != batch.shape[1:]:
        raise SampleError(
            f"sample {index} ({store.name(index)}) is {image.shape[0]} x {image.shape[1]}, those "
            f"before it {batch.shape[1]} x {batch.shape[2]}: give a transform that ends in one "
            "size, such as RandomResizedCrop(224) or Resize((224, 224))"
        )
    batch[place] = image


def _fields(store: Store, names: tuple[str, ...], step: Step) -> list[torch.Tensor]:
    return [torch.from_numpy(store.fields[name][step.ids]) for name in names]


def _images(value: Any) -> Any:
    images, *rest = value
    return _one_or_all((images.permute(0, 3, 1, 2), *rest))


def _one_or_all(value: Any) -> Any:
    return value if len(value) > 1 else value[0]
