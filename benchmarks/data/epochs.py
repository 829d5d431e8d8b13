"""`Loader(dataset)` in short epochs, against DataLoader with persistent workers.

`python -m benchmarks.data.epochs [IMAGES] [ROUNDS] [EPOCHS]`. The dataset is read as an ImageFolder
is: PIL, resize to 224 x 224, a tensor. Both sides have two workers and read the same files by
turns; who begins alternates. The first epoch of each, which starts its workers, is not counted. A
round's figures are the ratios of the seconds of its epochs, by the clock and as CPU time of the
whole process tree.
"""

import sys
import tempfile
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from benchmarks import record
from benchmarks.data.clock import tree_seconds
from benchmarks.data.images import folder, listed
from benchmarks.data.turns import by_turns, ratios_of
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
        timed = {name: partial(_seconds, loader) for name, loader in sides.items()}
        for side in timed.values():
            side()
        rows = [by_turns(timed, number, epochs) for number in range(rounds)]
    summary = {"images": images, "rounds": rounds, **ratios_of(rows, "DataLoader", "Loader")}
    raw = {", ".join(key): [row[key] for row in rows] for key in rows[0]}
    record.write(
        "data-epochs", f"python -m benchmarks.data.epochs {images} {rounds} {epochs}", raw, summary
    )


def _seconds(loader: Iterable[Any]) -> tuple[float, float]:
    start, spent = time.perf_counter(), tree_seconds()
    for _ in loader:
        pass
    return time.perf_counter() - start, tree_seconds() - spent


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
