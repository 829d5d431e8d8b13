"""Planted: after every step the norm of each gradient is read and printed."""

import argparse

import torch
from torch import nn


def network(depth=24):
    layers = [layer for _ in range(depth) for layer in (nn.Linear(64, 64), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(64, 10))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    args = parser.parse_args()
    torch.manual_seed(0)
    x, y = torch.randn(2048, 64), torch.randint(0, 10, (2048,))
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(args.steps):
        index = torch.randint(0, 2048, (32,))
        loss = nn.functional.cross_entropy(model(x[index]), y[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item(), *(p.grad.norm().item() for p in model.parameters()))  # planted


if __name__ == "__main__":
    main()
