"""Planted: every batch is converted to double precision, and the model follows."""

import argparse

import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    args = parser.parse_args()
    torch.manual_seed(0)
    volumes = torch.randn(192, 3, 256, 256)
    labels = torch.randint(0, 10, (192,))
    model = nn.Sequential(
        nn.AvgPool2d(8), nn.Flatten(), nn.Linear(3072, 64), nn.ReLU(), nn.Linear(64, 10)
    ).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(args.steps):
        chosen = slice(64 * (step % 3), 64 * (step % 3) + 64)
        x = volumes[chosen].to(torch.float64)  # planted
        loss = nn.functional.cross_entropy(model(x), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
