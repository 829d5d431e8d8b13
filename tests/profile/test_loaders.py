"""A profile tells of the script's DataLoaders even where they are gone when the program ends."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = """\
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        time.sleep(0.001)
        return torch.full((4,), index / 64), index % 3


def main():
    loader = DataLoader(Slow(), batch_size=8)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()


main()
"""


def test_a_loader_that_lives_in_a_function_is_told_of_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "hotlap", "profile", "--json", sys.executable, "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["facts"]["loaders"] == 1
    assert found["facts"]["loader_serial"]
    assert found["facts"]["batch_size"] == 8
    assert not found["facts"]["in_memory"]
    assert found["places"]["loader"] == "train.py:18"
    remedies = found["findings"][0]["remedies"]
    assert {"cached_dataset", "loader_workers"} <= {remedy["id"] for remedy in remedies}
