"""A map-style dataset, read through its own `__getitem__`."""

import io
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass

from hotlap.common.extras import need
from hotlap.data.errors import PackError
from hotlap.data.pack.settings import Settings
from hotlap.data.pack.sources.base import digest
from hotlap.data.pack.sources.records import Records, scanned


class MapDataset(Records):
    """Samples of a dataset with `__getitem__` and `__len__`: dictionaries, or tuples.

    The values of a tuple are called `image` and `label`, then `2`, `3` and so on. PIL images are
    kept as the PNG of their pixels, tensors as arrays.

    Args:
        dataset: should give the sample before random transforms.
        how: what to leave out, which field is the label.
    """

    kind = "dataset"

    def __init__(self, dataset: object, how: Settings | None = None) -> None:
        super().__init__(type(dataset).__name__, how)
        if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
            raise PackError(f"{self.where} has no samples by number (__getitem__ and __len__)")
        self._dataset = dataset
        self.settle(scanned(self.record(index) for index in range(len(self))))
        names = getattr(dataset, "classes", None)
        if self.label is not None and not self.classes and names:
            self.classes = tuple(map(str, names))

    def __len__(self) -> int:
        return len(self._dataset)

    def record(self, index: int) -> dict[str, object]:
        """Read one sample."""
        sample = self._dataset[index]
        if is_dataclass(sample) and not isinstance(sample, type):
            sample = asdict(sample)
        if isinstance(sample, tuple) and hasattr(sample, "_asdict"):
            sample = sample._asdict()
        if not isinstance(sample, Mapping):
            parts = sample if isinstance(sample, tuple | list) else (sample,)
            names = ["image", "label", *map(str, range(2, len(parts)))]
            sample = dict(zip(names, parts, strict=False))
        return {str(name): _plain(value) for name, value in sample.items()}

    def identity(self) -> str:
        """Return a digest of the dataset's type and length, and of a few samples."""
        step = max(1, len(self) // 16)
        some = (sorted(self.record(i).items()) for i in range(0, len(self), step))
        return digest([self.where, len(self), *some])


def _plain(value: object) -> object:
    if hasattr(value, "detach"):
        return need("numpy").asarray(value.detach().cpu())
    if hasattr(value, "getbands") and hasattr(value, "save"):
        buffer = io.BytesIO()
        value.save(buffer, "PNG")
        return buffer.getvalue()
    return value
