"""Keep samples in RAM after they have been read once."""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, TypeVar

import psutil
from torch.utils.data import Dataset, IterableDataset

from hotlap.common.randomness import Streams, attributes, same
from hotlap.common.samples import equal, size, twin

FIRST = 4
THEN_EVERY = 64
FIRST_EPOCHS = (4, 4, 1, 1)
SHARE = 0.001

Told = Callable[[str], None]
Began = Callable[[], None]
Key = int | str | bytes
Together = Callable[[Sequence[object]], list[object]]
T = TypeVar("T")


class CachedDataset(Dataset[Any]):
    """A map-style dataset whose samples are read once and then kept in RAM.

    It is exact or it is off: the first samples, and one in 64 after them, are read twice. When
    the two reads differ, or when any read draws random numbers (Python's, NumPy's, torch's, or a
    generator kept in the dataset), caching stops for good, `refused` says why, and reads pass
    through. The random number streams are left as a single plain read would leave them.

    Samples are handed out as copies, so that changing one in place does no harm. Once `ram_limit`
    bytes are full, further samples pass through; with `whole=True` caching is refused as soon as it
    is clear that not all samples fit.

    In a DataLoader with workers each worker process fills a cache of its own, and loses it at the
    epoch's end unless `persistent_workers=True`; use it with `num_workers=0`, or with persistent
    workers where RAM allows one cache for each. It is not meant to be shared by threads.

    Args:
        dataset: has `__getitem__` (and, if it likes, `__getitems__`) and `__len__`.
        ram_limit: bytes; by default half of what is free.
        whole: refuse rather than keep a part.
        told: called once with the reason when caching is refused.
        began: called once when the first sample is kept.

    Raises:
        TypeError: the dataset is iterable; its samples have no index to keep them by.
    """

    def __init__(
        self,
        dataset: Any,
        *,
        ram_limit: int | None = None,
        whole: bool = False,
        told: Told | None = None,
        began: Began | None = None,
    ) -> None:
        if isinstance(dataset, IterableDataset):
            raise TypeError(
                f"{type(dataset).__name__} is an IterableDataset: its samples have no index to "
                "keep them by; cache what it reads from instead"
            )
        self.dataset = dataset
        self.whole = whole
        self.ram_limit = psutil.virtual_memory().available // 2 if ram_limit is None else ram_limit
        self.refused = ""
        self.bytes = 0
        self._told = told
        self._began = began
        self._samples: dict[Key | None, object] = {}
        self._reads = 0
        self._streams = Streams(dataset)
        self._shape = _shape(dataset)
        self._changes = 0
        self._look_again = 0
        self._renewals = 0
        self._looked = 0.0
        self._took = 0.0

    def __len__(self) -> int:
        return len(self.dataset)

    def __getattr__(self, name: str) -> Any:
        """Hand on what the dataset itself offers: classes, targets and the like."""
        if name.startswith("__") or name == "dataset":
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def __getstate__(self) -> dict[str, object]:
        """Leave the samples behind: a worker process fills its own cache."""
        return {**vars(self), "_samples": {}, "bytes": 0, "_told": None, "_began": None}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._streams = Streams(self.dataset)

    @property
    def kept(self) -> int:
        """How many samples are in RAM."""
        return len(self._samples)

    def __getitem__(self, index: object) -> Any:
        key = _key(index)
        if self.refused or key is None:
            return self.dataset[index]
        if key in self._samples:
            return self._hit(key, index)
        return self._read(key, lambda: self.dataset[index])

    def __getitems__(self, indices: Sequence[object]) -> list[object]:
        """Read a batch: what is missing goes through the dataset's own `__getitems__`."""
        together = getattr(self.dataset, "__getitems__", None)
        if not together:
            return [self[index] for index in indices]
        missing = [index for index in indices if self.refused or _key(index) not in self._samples]
        if len(missing) == len(indices):
            return self._batch(indices, together)
        fresh = iter(self._batch(missing, together) if missing else ())
        found = [self._samples.get(_key(index)) for index in indices]
        absent = {_key(index) for index in missing}
        return [
            next(fresh) if _key(index) in absent else twin(sample)
            for index, sample in zip(indices, found, strict=True)
        ]

    def renew(self) -> None:
        """Forget the samples if the dataset was changed since; best called as an epoch begins.

        A change is another transform, a new number, a replaced array. The first samples that
        the epoch asks for are read and compared once more; after two epochs only one, and after
        four not in every epoch where that would take more than 0.1 % of the time.
        """
        before, self._shape = self._shape, _shape(self.dataset)
        self._renewals += 1
        if self._renewals <= len(FIRST_EPOCHS):
            self._look_again = FIRST_EPOCHS[self._renewals - 1]
        elif self._took <= SHARE * (perf_counter() - self._looked):
            self._look_again = 1
        if not _changed(before, self._shape):
            return
        self._changes += 1
        self._forget()
        self._streams = Streams(self.dataset)
        if self._changes > 1:
            self._refuse("the dataset changes between epochs")

    def _hit(self, key: Key, index: object) -> object:
        sample = twin(self._samples[key])
        if self._look_again:
            self._look_again -= 1
            self._looked = perf_counter()
            before = self._streams.state()
            again = self.dataset[index]
            self._streams.restore(before)
            agrees = equal(sample, again)
            self._took = perf_counter() - self._looked
            if not agrees:
                self._refuse("a sample has changed since it was read first")
                return again
        return sample

    def _read(self, key: Key, read: Callable[[], object]) -> object:
        sample, why = self._checked(read)
        if why:
            self._refuse(why)
        else:
            self._keep(key, sample)
        return sample

    def _batch(self, indices: Sequence[object], together: Together) -> list[object]:
        batch, why = self._checked(lambda: together(indices))
        if not why and not (isinstance(batch, list) and len(batch) == len(indices)):
            why = "its __getitems__ does not return a list of samples"
        if why:
            self._refuse(why)
            return batch
        for index, sample in zip(indices, batch, strict=True):
            key = _key(index)
            if key is not None:
                self._keep(key, sample)
        return batch

    def _checked(self, read: Callable[[], T]) -> tuple[T, str]:
        """Read, and say why this must not be kept; empty if nothing speaks against it."""
        if self.refused:
            return read(), ""
        before = self._streams.state()
        sample = read()
        after = self._streams.state()
        self._reads += 1
        if not same(before, after):
            return sample, "reading a sample draws random numbers"
        if self._reads > FIRST and self._reads % THEN_EVERY:
            return sample, ""
        again = read()
        self._streams.restore(after)
        return sample, "" if equal(sample, again) else "two reads of the same sample differ"

    def _keep(self, key: Key, sample: object) -> None:
        if self.refused or key in self._samples:
            return
        more = size(sample)
        if self.whole and more * len(self.dataset) > self.ram_limit:
            self._refuse(
                f"its samples take about {more * len(self.dataset) / 2**30:.1f} GiB, "
                f"and {self.ram_limit / 2**30:.1f} GiB may be used"
            )
        elif self.bytes + more <= self.ram_limit:
            self._samples[key] = twin(sample)
            self.bytes += more
            if self._began is not None:
                self._began()
                self._began = None

    def _refuse(self, why: str) -> None:
        if self.refused:
            return
        self.refused = why
        self._forget()
        if self._told is not None:
            self._told(why)

    def _forget(self) -> None:
        self._samples.clear()
        self.bytes = 0


def _key(index: object) -> Key | None:
    """Return an index that means the same whenever it is equal; None where that is not known."""
    if hasattr(index, "__index__"):
        try:
            return int(index)
        except (TypeError, ValueError):
            return None
    return index if isinstance(index, (str, bytes)) else None


def _shape(dataset: object) -> dict[str, object]:
    """Collect what samples depend on: plain settings, and which objects are used."""
    return dict(attributes(dataset))


def _changed(before: dict[str, object], now: dict[str, object]) -> bool:
    """Whether a setting or an object was replaced; a file opened at the first read is neither."""
    return any(_differ(value, now.get(path)) for path, value in before.items())


def _differ(before: object, now: object) -> bool:
    plain = isinstance(now, (int, float, str, bytes, type(None)))
    if before is None:
        return plain and now is not None
    return not (before is now or (plain and type(before) is type(now) and before == now))
