"""Planted: pixels go into the model as they are, 0 to 255."""

import argparse

import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=2000)
    args = parser.parse_args()
    torch.manual_seed(0)
    images = torch.randint(0, 256, (1024, 1, 16, 16)).float()
    labels = torch.randint(0, 10, (1024,))
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(256, 10)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for step in range(args.steps):
        index = torch.randint(0, 1024, (64,))
        logits = model(images[index])  # planted
        loss = nn.functional.cross_entropy(logits, labels[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
