"""Planted: nothing but convolutions; the tensors wait ready in memory."""

import argparse

import torch
from torch import nn


def conv(channels_in, channels_out):
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, 3, padding=1, bias=False),
        nn.BatchNorm2d(channels_out),
        nn.ReLU(inplace=True),
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    torch.manual_seed(0)
    images = torch.randn(256, 3, 32, 32)
    labels = torch.randint(0, 10, (256,))
    model = nn.Sequential(
        conv(3, 32), conv(32, 64), nn.MaxPool2d(2), conv(64, 64), nn.MaxPool2d(2), conv(64, 128),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(args.steps):
        chosen = slice(32 * (step % 8), 32 * (step % 8) + 32)
        logits = model(images[chosen])  # planted
        loss = nn.functional.cross_entropy(logits, labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
