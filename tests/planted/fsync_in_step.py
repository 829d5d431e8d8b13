"""Planted: the log is forced to the disk in each step, on a line that also reads the loss."""

import argparse
import os
import tempfile

import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=3000)
    args = parser.parse_args()
    torch.manual_seed(0)
    x, y = torch.randn(2048, 64), torch.randint(0, 10, (2048,))
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with tempfile.NamedTemporaryFile("w", dir=".") as log:
        for _ in range(args.steps):
            index = torch.randint(0, 2048, (256,))
            loss = nn.functional.cross_entropy(model(x[index]), y[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            log.write(f"{loss.item()}\n"), log.flush(), os.fsync(log.fileno())  # planted


if __name__ == "__main__":
    main()
