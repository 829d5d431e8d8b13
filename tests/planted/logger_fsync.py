"""Planted: a logger's method forces each line to the disk, behind reading the loss."""

import argparse
import json
import os
import tempfile

import torch
from torch import nn


class Journal:
    """One line of JSON for each step."""

    def __init__(self, file):
        self.file = file

    def add(self, step, **values):
        record = {"step": step, **{name: value.item() for name, value in values.items()}}
        print(json.dumps(record), file=self.file), self.file.flush(), os.fsync(self.file)  # planted


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=3000)
    args = parser.parse_args()
    torch.manual_seed(0)
    x, y = torch.randn(2048, 64), torch.randint(0, 10, (2048,))
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with tempfile.NamedTemporaryFile("w", dir=".") as file:
        journal = Journal(file.file)
        for step in range(args.steps):
            index = torch.randint(0, 2048, (256,))
            loss = nn.functional.cross_entropy(model(x[index]), y[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            journal.add(step, loss=loss.detach())


if __name__ == "__main__":
    main()
