"""A store of as many samples as ImageNet has: time to the first batch, memory over 20 epochs.

`python -m benchmarks.data.scale [SAMPLES] [EPOCHS]`. The rows are of 8 bytes, so that nothing but
the loader's own work is seen. The first batch is timed in fresh processes, after the imports.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks import record
from hotlap.data import Loader
from hotlap.data.store.publish import partial_of, publish
from hotlap.data.store.shard import ShardWriter

SHARDS = 128
BATCH = 1024
STARTS = 5
WARM = 3


def tiny(target: Path, count: int) -> None:
    """Write a store with names as long as those of ImageNet."""
    folder = partial_of(target)
    folder.mkdir()
    rows = np.arange(count).view("u1").reshape(count, 8)
    for shard in range(SHARDS):
        with ShardWriter(folder, shard) as writer:
            for index in range(shard * count // SHARDS, (shard + 1) * count // SHARDS):
                name = f"train/n01440764/n01440764_{index:08d}.JPEG"
                writer.add(rows[index], name, {"label": index % 1000})
    publish(target, SHARDS, "raw")


def first(store: Path) -> float:
    """Return the seconds from opening the store to its first batch."""
    start = time.perf_counter()
    next(iter(Loader(store, 64, shuffle=True)))
    return time.perf_counter() - start


def memory(store: Path, epochs: int) -> list[dict[str, int]]:
    """Memory of the process tree after each epoch, in KiB."""
    loader, me, rows = Loader(store, BATCH, shuffle=True), psutil.Process(), []
    for _ in range(WARM + epochs):
        for _ in loader:
            pass
        held = [_held(process.pid) for process in [me, *me.children(recursive=True)]]
        rows.append({kind: sum(found[kind] for found in held) for kind in held[0]})
    return rows


def _held(pid: int) -> dict[str, int]:
    """RSS, and PSS without files: a library's share of that hangs on other programs."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    found = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    return {"rss": found["Rss"], "pss": found["Pss_Anon"] + found["Pss_Shmem"]}


def slope(rows: list[dict[str, int]], kind: str) -> float:
    """KiB an epoch, by least squares, after the first epochs."""
    values = [row[kind] for row in rows[WARM:]]
    return round(float(np.polyfit(np.arange(len(values)), values, 1)[0]), 1)


def main(count: int = 1_280_000, epochs: int = 20) -> None:
    """Measure, and write the record."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        tiny(store, count)
        starts = [_child("first", store) for _ in range(STARTS)]
        rows = _child("memory", store, str(epochs))
    record.write(
        "data-scale",
        f"python -m benchmarks.data.scale {count} {epochs}",
        {"open and first batch, s": starts, "memory, KiB": rows},
        {
            "open and first batch, s": {
                "median": round(float(np.median(starts)), 3),
                "most": round(max(starts), 3),
            },
            "memory": {
                "PSS without files after the first epochs, MiB": round(rows[WARM]["pss"] / 1024),
                "RSS slope, KiB an epoch": slope(rows, "rss"),
                "PSS slope, KiB an epoch": slope(rows, "pss"),
            },
        },
    )


def _child(*arguments: Any) -> Any:
    command = [sys.executable, "-m", "benchmarks.data.scale", *map(str, arguments)]
    return json.loads(subprocess.check_output(command))


if __name__ == "__main__":
    given = sys.argv[1:]
    if given[:1] == ["first"]:
        print(json.dumps(first(Path(given[1]))))
    elif given[:1] == ["memory"]:
        print(json.dumps(memory(Path(given[1]), int(given[2]))))
    else:
        main(*map(int, given))
