"""Windows of a token stream: `Loader` over `TokenWindows` against nanoGPT's `get_batch`.

`python -m benchmarks.data.windows [MILLION_TOKENS] [ROUNDS] [BATCHES]`. 16-bit tokens, batches of
12 windows of 1024 (nanoGPT's defaults), drawn anywhere, inputs and targets in int64. Sides run by
turns in this process; who begins alternates. A round's figure is the ratio of the seconds of its
batches, by the clock and as CPU time.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import record
from benchmarks.data.turns import by_turns, ratios_of
from hotlap.data import Loader, TokenWindows
from hotlap.data.pack import pack
from hotlap.data.pack.sources import source_of

BATCH, LENGTH = 12, 1024


def memory_map(path: Path) -> Iterator[Any]:
    """As nanoGPT's train.py reads: a new memory map each time, a tensor from each window."""
    while True:
        data = np.memmap(path, dtype=np.uint16, mode="r")
        starts = torch.randint(len(data) - LENGTH, (BATCH,)).tolist()
        x = [torch.from_numpy(data[at : at + LENGTH].astype(np.int64)) for at in starts]
        y = [torch.from_numpy(data[at + 1 : at + 1 + LENGTH].astype(np.int64)) for at in starts]
        yield torch.stack(x), torch.stack(y)


def windows(store: Path) -> Iterator[Any]:
    """Epoch after epoch of a `Loader`."""
    loader = Loader(TokenWindows(store, LENGTH, random=True), BATCH, shuffle=True)
    while True:
        yield from loader


def main(million: int = 100, rounds: int = 11, batches: int = 1000) -> None:
    """Measure, and write the record."""
    with tempfile.TemporaryDirectory() as place:
        path, store = Path(place, "train.bin"), Path(place, "store")
        np.random.default_rng(0).integers(0, 50257, million * 1_000_000, "u2").tofile(path)
        pack(source_of(path, "tokens", "uint16", None), store, profile="tokens")
        sides = {
            "memory map": partial(_seconds, memory_map(path), batches),
            "Loader": partial(_seconds, windows(store), batches),
        }
        for side in sides.values():
            side()
        rows = [by_turns(sides, number) for number in range(rounds)]
    ratios = ratios_of(rows, "memory map", "Loader")
    summary = {"million tokens": million, "batches a round": batches, **ratios}
    raw = {", ".join(key): [row[key] for row in rows] for key in rows[0]}
    command = f"python -m benchmarks.data.windows {million} {rounds} {batches}"
    record.write("data-windows", command, raw, summary)


def _seconds(side: Iterator[Any], batches: int) -> tuple[float, float]:
    clocks: tuple[Callable[[], float], ...] = (time.perf_counter, time.process_time)
    begin = [clock() for clock in clocks]
    for _ in islice(side, batches):
        pass
    wall, cpu = (clock() - at for clock, at in zip(clocks, begin, strict=True))
    return wall, cpu


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
