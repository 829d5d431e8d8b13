"""`Loader(dataset)` in short epochs, against DataLoader with persistent workers.

`python -m benchmarks.data.epochs [IMAGES] [ROUNDS] [EPOCHS]`. The dataset is read as an ImageFolder
is: PIL, resize to 224 x 224, a tensor. Both sides have two workers and read the same files by
turns; who begins alternates. The first epoch of each, which starts its workers, is not counted. A
round's figures are the ratios of the seconds of its epochs, by the clock and as CPU time of the
whole process tree.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from benchmarks import record
from benchmarks.data.clock import tree_seconds
from benchmarks.data.images import folder, listed
from hotlap.data import Loader

BATCH = 32
WORKERS = 2


class Photos(Dataset[tuple[torch.Tensor, int]]):
    """Files decoded by PIL and resized."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image = Image.open(self.paths[index]).convert("RGB").resize((224, 224))
        return torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1).float() / 255, index % 8


def main(images: int = 384, rounds: int = 5, epochs: int = 3) -> None:
    """Measure, and write the record."""
    with tempfile.TemporaryDirectory() as place:
        folder(Path(place), images)
        data = Photos(listed(Path(place))[0])
        sides: dict[str, Iterable[Any]] = {
            "DataLoader": DataLoader(
                data, BATCH, shuffle=True, num_workers=WORKERS, persistent_workers=True
            ),
            "Loader": Loader(data, BATCH, shuffle=True, num_workers=WORKERS),
        }
        for side in sides.values():
            _pass(side)
        rows = [_round(sides, number, epochs) for number in range(rounds)]
    summary: dict[str, Any] = {"images": images, "rounds": rounds}
    for clock in ("wall", "cpu"):
        ratios = [row["DataLoader", clock] / row["Loader", clock] for row in rows]
        summary[f"DataLoader / Loader, {clock}"] = {
            "median": round(statistics.median(ratios), 3),
            "least": round(min(ratios), 3),
            "most": round(max(ratios), 3),
        }
    raw = {", ".join(key): [row[key] for row in rows] for key in rows[0]}
    record.write(
        "data-epochs", f"python -m benchmarks.data.epochs {images} {rounds} {epochs}", raw, summary
    )


def _round(
    sides: dict[str, Iterable[Any]], number: int, epochs: int
) -> dict[tuple[str, str], float]:
    seconds = {(name, clock): 0.0 for name in sides for clock in ("wall", "cpu")}
    for epoch in range(epochs):
        names = list(sides) if (number + epoch) % 2 else list(reversed(sides))
        for name in names:
            start, spent = time.perf_counter(), tree_seconds()
            _pass(sides[name])
            seconds[name, "wall"] += time.perf_counter() - start
            seconds[name, "cpu"] += tree_seconds() - spent
    return seconds


def _pass(loader: Iterable[Any]) -> None:
    for _ in loader:
        pass


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
