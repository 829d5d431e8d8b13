"""CPU time and wall time an image: hotlap's profiles against an ImageFolder, by turns.

`python -m benchmarks.data.speed [IMAGES] [ROUNDS]`. CPU time is that of the process tree. Each side
runs in processes of its own, kept from round to round; the order of the sides alternates. The sides
of hotlap give uint8 batches (what is copied to a device), those of torch what a DataLoader gives.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from torch.utils.data import DataLoader

from benchmarks import record
from benchmarks.data import images, usual
from hotlap.data import Loader
from hotlap.data.pack import pack
from hotlap.data.transforms import Resize

BATCH = 64
Row = dict[str, float]


def tree_seconds() -> float:
    """CPU seconds of this process, its living children, and those that ended."""
    me = psutil.Process()
    own = me.cpu_times()
    total = own.user + own.system + own.children_user + own.children_system
    for child in me.children(recursive=True):
        times = child.cpu_times()
        total += times.user + times.system
    return float(total)


def once(loader: Any, count: int) -> Row:
    """Microseconds an image of one epoch."""
    cpu, wall = tree_seconds(), time.perf_counter()
    for _ in loader:
        pass
    wall = time.perf_counter() - wall
    return {"cpu": (tree_seconds() - cpu) / count * 1e6, "wall": wall / count * 1e6}


def sides(root: Path) -> dict[str, Callable[[], Any]]:
    """Pack the folder in each profile; return what makes each side."""
    source = root / "images"
    sized = {"transform": Resize((224, 224)), "shuffle": True}
    pack(source, root / "jpeg")
    pack(source, root / "jpeg256", profile="jpeg256")
    raw = pack(source, root / "raw", profile="raw", resize=(224, 224))
    rows = np.empty((len(raw), *raw.row.shape), np.uint8)
    raw.rows_into(range(len(raw)), rows.reshape(len(raw), -1))
    np.save(root / "rows.npy", rows)
    plain = {"batch_size": BATCH, "shuffle": True}
    return {
        "tv": lambda: DataLoader(usual.Folder(source), **plain),
        "tv, 2 workers": lambda: DataLoader(
            usual.Folder(source), num_workers=2, persistent_workers=True, **plain
        ),
        "jpeg": lambda: Loader(root / "jpeg", BATCH, **sized),
        "jpeg256": lambda: Loader(root / "jpeg256", BATCH, **sized),
        "raw": lambda: Loader(root / "raw", BATCH, shuffle=True),
        "npy": lambda: DataLoader(usual.Mapped(root / "rows.npy"), **plain),
        "npy, 2 workers": lambda: DataLoader(
            usual.Mapped(root / "rows.npy"), num_workers=2, persistent_workers=True, **plain
        ),
    }


def main(count: int, rounds: int) -> None:
    """Measure, and write the record."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        images.folder(root / "images", count)
        loaders = {name: make() for name, make in sides(root).items()}
        for loader in loaders.values():
            once(loader, count)  # warm: start processes, first reads, checksums of rows
        rows: dict[str, list[Row]] = {name: [] for name in loaders}
        for number in range(rounds):
            order = list(loaders) if number % 2 else list(reversed(loaders))
            for name in order:
                rows[name].append(once(loaders[name], count))
    record.write(
        "data-speed", f"python -m benchmarks.data.speed {count} {rounds}", rows, ratios(rows)
    )


def ratios(rows: dict[str, list[Row]]) -> dict[str, Any]:
    """Medians, and the median of the paired ratios to the first side."""
    return {
        name: {
            f"{kind}_us": round(statistics.median(row[kind] for row in found), 1)
            for kind in ("cpu", "wall")
        }
        | {
            f"{kind}_over_tv": round(
                statistics.median(
                    base[kind] / row[kind] for base, row in zip(rows["tv"], found, strict=True)
                ),
                2,
            )
            for kind in ("cpu", "wall")
        }
        for name, found in rows.items()
    }


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:]]
    main(*(given + [512, 5][len(given) :]))
