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

from hotlap.data.extras import has
from hotlap.data.formats.known import FORMATS, Read
from hotlap.data.store import Store

MOST_BYTES = 256 << 20
ROUNDS = 5


@dataclass(frozen=True)
class Reading:
    """What one format takes: medians over the rounds, per sample."""

    name: str
    cpu: float
    wall: float
    note: str = ""


def compare(store: Store, samples: int = 512) -> list[Reading]:
    """Write some samples in every format that is installed, read them by turns, warm and at random.

    What is timed is reading the bytes of a sample (checked, in the case of the store), in seconds;
    decoding costs the same whatever they come from.
    """
    chosen = _chosen(store, samples)
    payloads = [store.payload(index) for index in chosen]
    alike = len({len(data) for data in payloads}) == 1
    missing = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hotlap-bench-")))
        _room(folder, sum(map(len, payloads)))
        readers: dict[str, Read] = {"hotlap store": lambda number: store.payload(chosen[number])}
        for number, each in enumerate(FORMATS):
            if each.rows and not alike:
                missing.append(Reading(each.name, 0, 0, "for rows of one length only"))
            elif absent := [module for module in each.needs if not has(module)]:
                missing.append(Reading(each.name, 0, 0, f"{absent[0]} is not installed"))
            else:
                each.write(payloads, folder / str(number))
                readers[each.name] = each.open(folder / str(number))
        return _timed(readers, len(payloads)) + missing


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


def _timed(readers: dict[str, Read], count: int) -> list[Reading]:
    order = random.Random(1).sample(range(count), count)
    rows: dict[str, list[tuple[float, float]]] = {name: [] for name in readers}
    for _ in range(ROUNDS + 1):  # the first warms
        for name, read in readers.items():
            rows[name].append(_once(read, order))
    return [
        Reading(
            name,
            statistics.median(cpu for cpu, _ in found[1:]) / count,
            statistics.median(wall for _, wall in found[1:]) / count,
        )
        for name, found in rows.items()
    ]


def _once(read: Callable[[int], bytes], order: list[int]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    for index in order:
        read(index)
    return time.process_time() - cpu, time.perf_counter() - wall
