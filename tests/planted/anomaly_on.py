"""Planted: anomaly detection was left on."""

import argparse

import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=600)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.autograd.set_detect_anomaly(True)  # planted
    x, y = torch.randn(2048, 64), torch.randint(0, 10, (2048,))
    layers = [layer for _ in range(20) for layer in (nn.Linear(64, 64), nn.Tanh())]
    model = nn.Sequential(*layers, nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for step in range(args.steps):
        index = torch.randint(0, 2048, (64,))
        loss = nn.functional.cross_entropy(model(x[index]), y[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
