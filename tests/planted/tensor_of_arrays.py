"""Planted: each batch is made by torch.tensor from a list of arrays, number by number."""

import argparse

import numpy as np
import torch
from torch import nn


class Replay:
    """A buffer of observations, each an array of its own."""

    def __init__(self, count=1024, size=784):
        rng = np.random.default_rng(0)
        self.rng = rng
        self.seen = [rng.standard_normal(size).astype(np.float32) for _ in range(count)]
        self.labels = rng.integers(0, 10, count)

    def sample(self, size):
        index = self.rng.integers(0, len(self.seen), size)
        x = torch.tensor([self.seen[i] for i in index])  # planted
        return x, torch.from_numpy(self.labels[index])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=400)
    args = parser.parse_args()
    torch.manual_seed(0)
    replay = Replay()
    model = nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(args.steps):
        x, y = replay.sample(64)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
