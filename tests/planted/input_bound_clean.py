"""The twin of input_bound: the same model, its samples transformed once, beforehand."""

import argparse

import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=3000)
    args = parser.parse_args()
    torch.manual_seed(0)
    waves = torch.randn(512, 2048)
    frames = waves.unfold(1, 128, 32)[:, :60] * torch.hann_window(128)
    images = torch.fft.rfft(frames).abs()[..., :32].log1p().unsqueeze(1).contiguous()
    labels = torch.randint(0, 10, (512,))
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
        nn.Linear(128, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(args.steps):
        index = torch.randint(0, 512, (16,))
        loss = nn.functional.cross_entropy(model(images[index]), labels[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
