"""Planted: a heavy Python transform of every sample, and nobody to share it with."""

import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Spectrograms(Dataset):
    def __init__(self, count=512, length=2048):
        self.rng = np.random.default_rng(0)
        self.waves = self.rng.standard_normal((count, length)).astype(np.float32)
        self.labels = self.rng.integers(0, 10, count)

    def __len__(self):
        return len(self.waves)

    def __getitem__(self, index):
        wave = self.waves[index]
        frames = []
        for start in range(0, len(wave) - 128, 32):
            frame = wave[start : start + 128] * np.hanning(128)
            spectrum = np.abs(np.fft.rfft(frame))[:32]
            frames.append([float(np.log1p(value)) for value in spectrum])
        return torch.tensor(frames).unsqueeze(0), int(self.labels[index])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
        nn.Linear(128, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loader = DataLoader(Spectrograms(), batch_size=16, shuffle=True, num_workers=0)  # planted
    step = 0
    while step < args.steps:
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % 20 == 0:
                print(f"step {step} loss {loss.item():.4f}")
            if step == args.steps:
                break


if __name__ == "__main__":
    main()
