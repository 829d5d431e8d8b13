"""Planted: an object of the script's own keeps every output with its graph."""

import argparse

import torch
from torch import nn


class History:
    def __init__(self):
        self.outputs = []

    def add(self, output):
        self.outputs.append(output)  # planted

    def accuracy(self, y):
        return (self.outputs[-1].argmax(1) == y).float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    args = parser.parse_args()
    torch.manual_seed(0)
    x, y = torch.randn(4096, 256), torch.randint(0, 10, (4096,))
    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    history = History()
    for step in range(args.steps):
        index = torch.randint(0, 4096, (128,))
        output = model(x[index])
        loss = nn.functional.cross_entropy(output, y[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.add(output)
        if step % 100 == 0:
            print(f"step {step} accuracy {history.accuracy(y[index]):.3f}")


if __name__ == "__main__":
    main()
