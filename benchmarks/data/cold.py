"""Random reads of raw rows from the disk, against the sequential rate of the same files.

`python -m benchmarks.data.cold [ROWS] [ROUNDS] [FOLDER]`. Before each pass the store's files are
dropped from the page cache; that they are gone is checked. Rates in MB/s, by turns.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from benchmarks import record
from benchmarks.data import prepare
from hotlap.data import Loader

BATCH = 64
CHUNK = 1 << 20


def evict(files: list[Path]) -> None:
    """Drop files from the page cache; pages that are being read just then need another try."""
    for path in files:
        if not any(_dropped(path) for _ in range(50)):
            raise RuntimeError(f"{path} is still in memory")


def _dropped(path: Path) -> bool:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.preadv(handle, [bytearray(1)], path.stat().st_size // 2, os.RWF_NOWAIT)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    time.sleep(0.02)
    return False


def sequential(files: list[Path]) -> None:
    """Read files from beginning to end, a MiB at a time, with the kernel's own read-ahead."""
    chunk = bytearray(CHUNK)
    for path in files:
        with path.open("rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
            while file.readinto(chunk):
                pass


def shuffled(store: Path) -> None:
    """Run through a shuffled epoch of a fresh loader."""
    for _ in Loader(store, BATCH, shuffle=True):
        pass


def mapped(rows: Path) -> None:
    """Gather shuffled batches from a memory map, as `np.load(mmap_mode="r")` gives it."""
    found = np.load(rows, mmap_mode="r")
    for ids in torch.randperm(len(found)).split(BATCH):
        found[ids.numpy()]


def main(rows: int = 16384, rounds: int = 3, place: str = "") -> None:
    """Measure, and write the record."""
    with tempfile.TemporaryDirectory() as passing:
        folder = Path(place or passing)
        prepare.raw(folder, rows)
        shards = sorted((folder / "raw").glob("*.bin"))
        plain = folder / "rows.npy"
        sides: dict[str, tuple[list[Path], Callable[[], None]]] = {
            "sequential": (shards, lambda: sequential(shards)),
            "loader, shuffled": (shards, lambda: shuffled(folder / "raw")),
            "mmap, shuffled": ([plain], lambda: mapped(plain)),
        }
        rates = _rates(sides, rounds)
    base = rates["sequential"]
    summary = {
        name: {
            "MB/s": round(statistics.median(found)),
            "of sequential": round(
                statistics.median(a / b for a, b in zip(found, base, strict=True)), 2
            ),
        }
        for name, found in rates.items()
    }
    record.write("data-cold", f"python -m benchmarks.data.cold {rows} {rounds}", rates, summary)


def _rates(
    sides: dict[str, tuple[list[Path], Callable[[], None]]], rounds: int
) -> dict[str, list[float]]:
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds):
        for name in list(sides) if number % 2 else reversed(list(sides)):
            files, run = sides[name]
            evict(files)
            start = time.perf_counter()
            run()
            size = sum(path.stat().st_size for path in files)
            rates[name].append(size / (time.perf_counter() - start) / 1e6)
    return rates


if __name__ == "__main__":
    given = sys.argv[1:]
    main(*map(int, given[:2]), *given[2:])
