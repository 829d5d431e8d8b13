"""Planted: the running loss keeps the graph of every step alive."""

import argparse

import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=2000)
    args = parser.parse_args()
    torch.manual_seed(0)
    x, y = torch.randn(4096, 256), torch.randint(0, 10, (4096,))
    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    running = 0.0
    for step in range(args.steps):
        index = torch.randint(0, 4096, (128,))
        loss = nn.functional.cross_entropy(model(x[index]), y[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running += loss  # planted
        if step % 100 == 0:
            print(f"step {step} mean loss {float(running) / (step + 1):.4f}")


if __name__ == "__main__":
    main()
