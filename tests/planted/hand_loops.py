"""Planted: an average of the weights, kept parameter by parameter in Python."""

import argparse
import copy

import torch
from torch import nn


def network(depth=40):
    layers = [layer for _ in range(depth) for layer in (nn.Linear(32, 32), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(32, 10))


@torch.no_grad()
def average(shadow, model, decay=0.999):
    for kept, p in zip(shadow.parameters(), model.parameters(), strict=True):  # planted
        kept.data = decay * kept.data + (1.0 - decay) * p.data


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=600)
    args = parser.parse_args()
    torch.manual_seed(0)
    x, y = torch.randn(2048, 32), torch.randint(0, 10, (2048,))
    model = network()
    shadow = copy.deepcopy(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=False)
    for step in range(args.steps):
        index = torch.randint(0, 2048, (32,))
        loss = nn.functional.cross_entropy(model(x[index]), y[index])
        optimizer.zero_grad()
        loss.backward()
        total = sum(p.grad.norm() ** 2 for p in model.parameters()) ** 0.5
        clip = torch.clamp(1.0 / total, max=1.0)
        for p in model.parameters():
            p.grad.mul_(clip)
        optimizer.step()
        average(shadow, model)
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
