"""What the dataset of the training reads for its samples, looked at once the steps are timed.

Some samples are read once more in this process, by what the loader itself would read them with,
while the files that are opened are written down. The program's random numbers stay as they were.
"""

import inspect
import os
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, Subset
from torch.utils.data._utils.fetch import _MapDatasetFetcher
from torch.utils.data.sampler import SequentialSampler

from hotlap.common.extras import MissingPackageError
from hotlap.common.randomness import Streams, attributes, same
from hotlap.common.threads import one_thread
from hotlap.core.protocol import DatasetReport, Taken
from hotlap.seam.patch import replaced
from hotlap.seam.probe.fitting import ALIKE, Fit, fitted
from hotlap.seam.probe.resources import faults_of
from hotlap.seam.where import is_users_file, short

SECONDS = 1.0
FEWEST, MOST = 24, 384
SLOWEST = 0.25
FIRST = 4
SUFFIXES = ".jpg .jpeg .jpe .png .bmp .webp .gif .tif .tiff .ppm .pgm .jp2 .avif".split()  # noqa: SIM905
MAGIC = (b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"II*\0", b"MM\0*", b"BM")


@dataclass
class Seen:
    """What the dataset showed.

    `why` says what makes it unfit for a comparison, `failed` what is missing for one; if anything.
    """

    about: DatasetReport
    fetcher: _MapDatasetFetcher
    taken: Taken | None = None
    shape: tuple[int, ...] = ()
    dtype: str = ""
    draws: bool = False
    why: str = ""
    failed: str = ""
    faults: dict[str, float] = field(default_factory=dict)
    fit: Fit | None = None
    transforms: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def report(self) -> DatasetReport:
        """What is sent of it, without the comparison."""
        return replace(
            self.about, shape=list(self.shape), dtype=self.dtype, draws=self.draws, why=self.why,
            taken=self.taken, faults=self.faults, failed=self.failed,
        )  # fmt: skip


def seen(loader: DataLoader[object]) -> Seen | None:
    """Look at the dataset of a loader; None where its samples have no numbers."""
    dataset = getattr(loader, "dataset", None)
    if dataset is None or isinstance(dataset, IterableDataset) or not loader.batch_size:
        return None
    fetch = _MapDatasetFetcher(dataset, True, loader.collate_fn, False)
    found = Seen(_about(loader, dataset), fetch)
    if not hasattr(dataset, "__len__") or len(dataset) < FEWEST:
        return None
    with as_worker(dataset) as streams:
        try:
            _look(found, dataset, streams)
        except MissingPackageError as error:
            found.failed = str(error)
        except Exception as error:
            found.why = f"its samples could not be read here: {error!r}"
    return found


@contextmanager
def as_worker(dataset: object) -> Iterator[Streams]:
    """Read samples on one thread, as a worker does; the random numbers stay as they were."""
    streams = Streams(dataset)
    before = streams.state()
    try:
        with one_thread():
            yield streams
    finally:
        streams.restore(before)


def _look(found: Seen, dataset: Any, streams: Streams) -> None:
    """Read a few samples to learn the pace and the form, then as many as there is time for."""
    order = random.Random(0).sample(range(len(dataset)), min(MOST, len(dataset)))
    state = streams.state()
    first, batch = _read(found.fetcher, order[:FIRST])
    found.draws = not same(state, streams.state())
    found.shape, found.dtype = form(batch)
    found.transforms = dict(_transforms(dataset))
    found.why = _unfit(first, found.shape)
    if not found.why and not found.draws:
        images = _images(batch)
        assert images is not None  # `_unfit` refuses what is no batch of images
        found.fit = fitted(images, first.files)
        if found.fit.agreement < ALIKE:
            found.why = "its transform is none that a packed copy could stand for"
    if found.why:
        return
    count = min(len(order), max(FEWEST, int(SECONDS / max(first.seconds, 1e-6))))
    size = min(found.about.batch_size, 32)
    parts: list[Taken] = []

    def read() -> None:
        parts.extend(_read(found.fetcher, ids)[0] for ids in _blocks(order[:count], size))

    found.faults = faults_of(read, count)
    found.taken = Taken(
        [i for part in parts for i in part.ids],
        [path for part in parts for path in part.files],
        [label for part in parts for label in part.labels],
        sum(part.seconds * len(part.ids) for part in parts) / count,
    )
    found.why = _unfit(found.taken, found.shape)


def _blocks(ids: list[int], size: int) -> Iterator[list[int]]:
    for start in range(0, len(ids), size):
        yield ids[start : start + size]


def _read(fetcher: _MapDatasetFetcher, ids: Sequence[int]) -> tuple[Taken, object]:
    with opened() as files:
        begin = perf_counter()
        batch = fetcher.fetch(list(ids))  # type: ignore[no-untyped-call]
        seconds = (perf_counter() - begin) / len(ids)
    images = [path for path in files if is_image(path)]
    return Taken(list(ids), images, labels_of(batch, len(ids)), seconds), batch


def _unfit(taken: Taken, shape: tuple[int, ...]) -> str:
    if len(taken.files) != len(taken.ids):
        return "a sample is not read from one image file"
    if not shape:
        return "its batches hold no colour images of one size"
    if taken.seconds > SLOWEST:
        return f"a sample takes {taken.seconds:.2g} s, too long to read many"
    return ""


def is_image(path: str) -> bool:
    """Whether a file is an image, by its name or else by its first bytes."""
    if os.path.splitext(path)[1].lower() in SUFFIXES:
        return os.path.isfile(path)
    try:
        with open(path, "rb") as file:
            return file.read(8).startswith(MAGIC)
    except OSError:
        return False


def form(batch: object) -> tuple[tuple[int, ...], str]:
    """(3, height, width) and dtype of a batch's colour images; nothing if it holds none."""
    first = _images(batch)
    return (tuple(first.shape[1:]), str(first.dtype)[6:]) if first is not None else ((), "")


def _images(batch: object) -> torch.Tensor | None:
    """The colour images of a batch as (samples, 3, height, width); None if it holds none."""
    first = batch[0] if isinstance(batch, (list, tuple)) and batch else batch
    first = next(iter(batch.values()), None) if isinstance(batch, dict) else first
    if not isinstance(first, torch.Tensor) or first.dim() != 4:
        return None
    last = first.shape[1] != 3 and first.shape[-1] == 3
    images = first.permute(0, 3, 1, 2) if last else first
    return images if images.shape[1] == 3 else None


def labels_of(batch: object, count: int) -> list[int | None]:
    """The labels of a batch, where it has whole numbers in second place."""
    labels = batch[1] if isinstance(batch, (list, tuple)) and len(batch) > 1 else None
    whole = isinstance(labels, torch.Tensor) and not labels.is_floating_point()
    if whole and labels.shape == (count,):  # type: ignore[union-attr]
        return labels.tolist()  # type: ignore[union-attr,no-any-return]
    return [None] * count


def _about(loader: DataLoader[object], dataset: object) -> DatasetReport:
    inner = dataset
    while isinstance(inner, Subset):
        inner = inner.dataset
    return DatasetReport(
        kind=type(inner).__name__,
        bases=[f"{kind.__module__}.{kind.__qualname__}" for kind in type(inner).__mro__],
        place=_place(type(inner)),
        length=len(dataset) if hasattr(dataset, "__len__") else 0,
        part=inner is not dataset,
        root=str(getattr(inner, "root", "") or ""),
        batch_size=int(loader.batch_size or 0),
        workers=int(loader.num_workers),
        shuffle=not isinstance(loader.sampler, SequentialSampler),
    )


def _place(kind: type) -> str:
    """`file:line` of the class's `__getitem__`, if the user wrote it."""
    try:
        function = inspect.unwrap(vars(kind)["__getitem__"])
        code = function.__code__
    except (KeyError, AttributeError, ValueError):
        return ""
    if not is_users_file(code.co_filename):
        return ""
    return f"{short(code.co_filename)}:{code.co_firstlineno}"


def _transforms(dataset: object) -> Iterator[tuple[str, dict[str, list[float]]]]:
    """Objects that a dataset holds under torchvision's names, with the numbers they were given."""
    for _, value in attributes(dataset):
        name = type(value).__name__
        if name.startswith(("Random", "Normalize", "ColorJitter")):
            held = vars(value).items() if hasattr(value, "__dict__") else ()
            yield name, {key: numbers(entry) for key, entry in held if key in ("mean", "std")}


def numbers(value: Iterable[Any]) -> list[float]:
    """A list of floats from whatever holds numbers; empty if it does not."""
    try:
        return [float(entry) for entry in value]
    except (TypeError, ValueError):
        return []


WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
NATIVE = (("cv2", "imread"), ("torchvision.io", "read_file"), ("torchvision.io", "read_image"))
"""Readers that open a path themselves, which Python does not hear of."""


class _AuditHook:
    """An audit hook cannot be removed: there is one, which does nothing while nobody listens."""

    listening: list[str] | None = None
    added = False


@contextmanager
def opened() -> Iterator[list[str]]:
    """Give a list that fills with the absolute paths opened for reading, in order."""
    found: list[str] = []
    with ExitStack() as stack:
        for module, name in NATIVE:
            if name in vars(sys.modules.get(module, os)):
                stack.enter_context(
                    replaced(sys.modules[module], name, lambda f: _noting(f, found))
                )
        _AuditHook.listening = found
        if not _AuditHook.added:
            _AuditHook.added = True
            sys.addaudithook(partial(_hear, _AuditHook))
        try:
            yield found
        finally:
            _AuditHook.listening = None


def _hear(hook: type[_AuditHook], event: str, args: tuple[object, ...]) -> None:
    """Module names are None while the interpreter ends, which it hears as well."""
    if event != "open" or hook.listening is None:
        return
    if not (isinstance(args[2], int) and args[2] & WRITES):
        _note_opened(args[0], hook.listening)


def _noting(original: Callable[..., object], found: list[str]) -> object:
    def read(path: object, *args: object, **kwargs: object) -> object:
        before = len(found)
        result = original(path, *args, **kwargs)
        if len(found) == before:
            _note_opened(path, found)
        return result

    return read


def _note_opened(path: Any, found: list[str]) -> None:
    with suppress(TypeError, ValueError):
        found.append(os.path.abspath(os.fsdecode(path)))
