"""Read the same samples from a store and from other formats, by turns."""

import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hotlap.common.extras import has, how_to_install
from hotlap.data.errors import StoreError
from hotlap.data.formats.arrays import NPY, PTH
from hotlap.data.formats.base import Format
from hotlap.data.formats.databases import HDF5, LMDB, TFRECORD
from hotlap.data.formats.files import FILES, TAR, WEBDATASET
from hotlap.data.formats.tables import ARROW, PARQUET
from hotlap.data.store import Store

FORMATS = (FILES, TAR, WEBDATASET, LMDB, HDF5, TFRECORD, ARROW, PARQUET, NPY, PTH)
"""Those that are compared, in the order they are shown where they take the same time."""

MOST_BYTES = 256 << 20
ROUNDS = 5
BATCH = 64
STORE = "hotlap store"

Pass = Callable[[list[int]], None]
"""Reads the samples of these numbers."""


@dataclass(frozen=True)
class Reading:
    """What one format takes: medians over the rounds, in seconds a sample.

    `note` says why there is no figure.
    """

    name: str
    cpu: float
    wall: float
    note: str = ""


def compare(store: Store, samples: int = 512) -> list[Reading]:
    """Write some samples in every format that is installed, read them by turns, warm and at random.

    What is timed is reading the bytes of a sample (checked, in the case of the store); decoding
    costs the same whatever they come from. Rows are read from the store by batches, as the loader
    does. The fastest come first.

    Raises:
        StoreError: the store holds nothing.
        OSError: there is no room for the copies.
    """
    if not len(store):
        raise StoreError(f"{store.path} holds no samples: there is nothing to compare")
    chosen = _chosen(store, samples)
    payloads = [store.payload(index) for index in chosen]
    missing = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hotlap-bench-")))
        _room(folder, sum(map(len, payloads)))
        passes = {STORE: _of_store(store, chosen)}
        for number, each in enumerate(FORMATS):
            why = _unfit(each, payloads)
            if not why:
                why = _opened(each, payloads, folder / str(number), passes)
            if why:
                missing.append(Reading(each.title, 0, 0, why))
        found = _timed(passes, len(payloads))
        return sorted(found, key=lambda reading: reading.cpu) + missing


def _unfit(each: Format, payloads: list[bytes]) -> str:
    absent = next((module for module in each.needs if not has(module)), "")
    if absent:
        return f"needs {how_to_install(absent)}"
    if each.rows and len({len(data) for data in payloads}) > 1:
        return "for rows of one length only"
    return ""


def _opened(each: Format, payloads: list[bytes], path: Path, passes: dict[str, Pass]) -> str:
    """Write and open a format; say why where its library cannot."""
    try:
        each.write(payloads, path)
        read = each.open(path)
        wrong = _bytes(read(0)) != payloads[0]
    except OSError:
        raise
    except Exception as error:
        return f"its library failed: {type(error).__name__}: {error}"
    if wrong:
        return "its library gives back other bytes than were written"
    passes[each.title] = _one_by_one(read)
    return ""


def _bytes(found: Any) -> bytes:
    """The bytes of what a format gave: bytes, an array or a tensor."""
    array = found.numpy() if hasattr(found, "numpy") else found
    data: bytes = array.tobytes() if hasattr(array, "tobytes") else bytes(array)
    return data


def _one_by_one(read: Callable[[int], object]) -> Pass:
    def run(numbers: list[int]) -> None:
        for number in numbers:
            read(number)

    return run


def _of_store(store: Store, chosen: list[int]) -> Pass:
    if store.profile != "raw":
        return _one_by_one(lambda number: store.payload(chosen[number]))
    import numpy

    out = numpy.empty((BATCH, store.length(chosen[0])), "u1")

    def run(numbers: list[int]) -> None:
        for start in range(0, len(numbers), BATCH):
            ids = numpy.array([chosen[number] for number in numbers[start : start + BATCH]])
            store.rows_into(ids, out[: len(ids)])

    return run


def _chosen(store: Store, samples: int) -> list[int]:
    """Return samples spread over the store, so many that they fit the bytes allowed."""
    spread = random.Random(0).sample(range(len(store)), min(samples, len(store)))
    total = 0
    kept: list[int] = []
    for index in spread:
        total += store.length(index)
        if kept and total > MOST_BYTES:
            break
        kept.append(index)
    return kept


def _room(folder: Path, size: int) -> None:
    needed = size * (len(FORMATS) + 2)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise OSError(f"{folder} has {free >> 20} MiB free, comparing needs {needed >> 20} MiB")


def _timed(passes: dict[str, Pass], count: int) -> list[Reading]:
    order = random.Random(1).sample(range(count), count)
    rows: dict[str, list[tuple[float, float]]] = {name: [] for name in passes}
    for _ in range(ROUNDS + 1):  # the first warms
        for name, run in passes.items():
            rows[name].append(_once(run, order))
    return [
        Reading(
            name,
            statistics.median(cpu for cpu, _ in found[1:]) / count,
            statistics.median(wall for _, wall in found[1:]) / count,
        )
        for name, found in rows.items()
    ]


def _once(run: Pass, order: list[int]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    run(order)
    return time.process_time() - cpu, time.perf_counter() - wall
