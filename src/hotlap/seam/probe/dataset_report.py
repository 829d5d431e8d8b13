"""What feeds the training, looked at after the timed steps: the dataset, and what is held now."""

import ctypes
import io
import mmap
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TypeVar

from torch.utils.data import DataLoader, IterableDataset

from hotlap.common.randomness import Streams, attributes
from hotlap.common.samples import size
from hotlap.core.protocol import DatasetReport, HeldObjects, ResourceReport, SharedMemory
from hotlap.seam.probe.dataset import seen
from hotlap.seam.probe.packed import compared
from hotlap.seam.probe.recorder import Recorder
from hotlap.seam.probe.sample_lines import costliest_line

MANY = 10_000
SAMPLE = 200
LARGE = 1 << 20


def objects(dataset: object) -> list[HeldObjects]:
    """Long lists and dicts of Python objects that a dataset holds, the largest first.

    An object's count is written to whenever it is looked at, so that a forked worker copies the
    page it lies on.
    """
    found = []
    for path, value in attributes(dataset):
        if isinstance(value, (list, tuple, dict)) and len(value) >= MANY:
            entries = value.values() if isinstance(value, dict) else value
            each = sum(map(_size, islice(entries, SAMPLE))) / SAMPLE
            if each:
                kind = type(value).__name__
                found.append(HeldObjects(path[1:], kind, len(value), each * len(value)))
    return sorted(found, key=lambda entry: -entry.bytes)


def _size(value: object, depth: int = 2) -> int:
    """Bytes of an object with those in it; nothing for arrays and tensors."""
    if not isinstance(value, (str, bytes, int, float, tuple, list, dict, os.PathLike)):
        return 0
    if not depth or not isinstance(value, (tuple, list, dict)):
        return sys.getsizeof(value)
    inner = value.values() if isinstance(value, dict) else value
    return sys.getsizeof(value) + sum(_size(entry, depth - 1) for entry in inner)


def open_files() -> list[str]:
    """Large files that this process holds open or mapped, other than code."""
    return sorted({path for path in (*_handles(), *_maps()) if _is_data(path)})


def _handles() -> Iterator[str]:
    for handle in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            yield os.readlink(f"/proc/self/fd/{handle}")


def _maps() -> Iterator[str]:
    with suppress(OSError), open("/proc/self/maps") as file:
        for line in file:
            _, access, *_ = line.split(maxsplit=2)
            path = line.partition("/")[2].strip()
            if path and "x" not in access:
                yield f"/{path}"


def _is_data(path: str) -> bool:
    system = ("/dev/", "/proc/", "/sys/", "/usr/", "/lib", "/memfd:", sys.prefix, sys.base_prefix)
    code = ".so" in Path(path).name or path.endswith((".py", ".pyc"))
    if path.startswith(system) or code:
        return False
    with suppress(OSError):
        return os.path.isfile(path) and os.stat(path).st_size >= LARGE
    return False


def kept() -> int:
    """Bytes of freed memory that malloc had not given back; it does now. 0 where it cannot."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return 0
    before = _resident_bytes()
    trim(0)
    return max(0, before - _resident_bytes())


def _resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * mmap.PAGESIZE


def shared_memory(loader: DataLoader[object], batch: int) -> SharedMemory | None:
    """Bytes of /dev/shm that a loader's workers may need at once, and that it has in all."""
    ahead = (loader.prefetch_factor or 2) * loader.num_workers + 1
    with suppress(OSError):
        found = os.statvfs("/dev/shm")
        size, free = (blocks * found.f_frsize for blocks in (found.f_blocks, found.f_bavail))
        return SharedMemory(ahead * batch, size, batch, free, ahead)
    return None


T = TypeVar("T")

LEAST = 0.1
"""The share of a step that waiting for data must take: below, nothing here could give 10 %."""
OVER = "the program was over before its files could be read once more; --steps asks for fewer"
FEW = 2


@contextmanager
def _silent() -> Iterator[None]:
    """What the dataset prints for these further samples is no output of the program's."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        yield


@_silent()
def fed(
    rec: Recorder, ended: str, loader: DataLoader[object] | None, waiting: float
) -> DatasetReport | None:
    """What was learned of the dataset; None where nobody asked, or nothing waits."""
    if not rec.options.dataset or loader is None or waiting < LEAST:
        return None
    if ended != "steps":
        return DatasetReport(why=OVER)
    found = seen(loader)
    if found is None:
        return None
    report = found.report()
    if report.failed or report.why:
        return report
    on_device = bool(rec.facts.values.get("cuda"))
    try:
        packed = compared(found, rec.session.spec.scratch, on_device=on_device)
    except Exception as error:  # a missing package, a full disk
        return replace(report, failed=str(error) or repr(error))
    return replace(report, packed=packed)


@_silent()
def held(rec: Recorder, ended: str, loader: DataLoader[object] | None) -> ResourceReport | None:
    """What was used meanwhile and is held now: memory of workers, disk reads, files, /dev/shm."""
    if not rec.options.dataset:
        return None
    shm, found = None, list[HeldObjects]()
    if loader is not None and loader.num_workers:
        found = _tried(lambda: objects(loader.dataset), [])
        if ended == "steps":
            shm = _tried(lambda: shared_memory(loader, _batch(loader)), None)
    return replace(
        rec.resources.result(),
        files=_tried(open_files, []),
        objects=found,
        shm=shm,
        kept=_tried(kept, 0),
    )


@_silent()
def costly(
    rec: Recorder, ended: str, loader: DataLoader[object] | None, resources: ResourceReport | None,
    waiting: float,
) -> str:  # fmt: skip
    """`file:line` that samples cost most at, where workers read them and that matters."""
    if resources is None or loader is None or not loader.num_workers or ended != "steps":
        return ""
    matters = waiting >= LEAST or resources.computed_by_workers >= LEAST
    return costliest_line(loader) if matters else ""


def _tried(look: Callable[[], T], otherwise: T) -> T:
    """What a look brings; `otherwise` where it fails, since the profile is sent all the same."""
    try:
        return look()
    except Exception:
        return otherwise


def _batch(loader: DataLoader[object]) -> int:
    """Bytes of one of the loader's batches, from a few samples read here."""
    dataset = loader.dataset
    if isinstance(dataset, IterableDataset) or not loader.batch_size:
        return 0
    streams = Streams(dataset)
    before = streams.state()
    try:
        sizes = [size(dataset[index]) for index in range(FEW)]
    finally:
        streams.restore(before)
    return int(loader.batch_size * sum(sizes) / FEW)
