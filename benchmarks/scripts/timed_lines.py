"""A training that times its own lines and writes their seconds, as JSON, to the file given."""

import json
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

WARM_UP, EVERY = 20, 10


class Laps:
    """Seconds by line: each `lap()` is that of the line above it."""

    def __init__(self) -> None:
        self.seconds: defaultdict[int, float] = defaultdict(float)
        self._begin = 0.0

    def begin(self) -> None:
        """The next line begins."""
        self._begin = time.perf_counter()

    def lap(self) -> None:
        """The line above the caller's is over, and the next one begins."""
        now = time.perf_counter()
        self.seconds[sys._getframe(1).f_lineno - 1] += now - self._begin
        self._begin = time.perf_counter()


laps = Laps()


class Rows(Dataset[tuple[Tensor, Tensor]]):
    """Rows that are read from files and normalised, with lines of Python in between."""

    def __init__(self, folder: Path) -> None:
        self.files = [folder / f"{number}.npy" for number in range(256)]
        for file in self.files:
            np.save(file, np.random.default_rng(0).random(256, np.float32))
        self.labels = torch.randint(0, 10, (4096,))

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        laps.begin()
        row = torch.from_numpy(np.load(self.files[index % len(self.files)]))
        laps.lap()
        checksum = sum(index * number % 7 for number in range(400))
        laps.lap()
        row = (row - row.mean()) / (row.std() + 1e-5)
        laps.lap()
        sum(float(value) for value in row[:48])
        laps.lap()
        return row + 1e-9 * checksum, self.labels[index]


def main(path: Path) -> None:
    """Train until stopped."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(Rows(path.parent), batch_size=64, shuffle=True)
    step = 0
    while True:
        for x, y in loader:
            laps.begin()
            output = model(x)
            laps.lap()
            loss = nn.functional.cross_entropy(output, y)
            laps.lap()
            optimizer.zero_grad()
            laps.lap()
            loss.backward()
            laps.lap()
            optimizer.step()
            laps.lap()
            sum(a == b for a, b in zip(output.argmax(1).tolist(), y.tolist(), strict=True))
            laps.lap()
            step += 1
            if step == WARM_UP:
                laps.seconds.clear()
            elif step > WARM_UP and step % EVERY == 0:
                path.write_text(json.dumps(laps.seconds))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
