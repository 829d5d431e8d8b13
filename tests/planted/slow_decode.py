"""Planted: every sample is decompressed anew in each epoch, by the process that trains."""

import argparse
import zlib

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Archive(Dataset):
    """Photographs, kept as they lie on disk: compressed."""

    def __init__(self, count=192, size=96):
        rng = np.random.default_rng(0)
        photos = rng.integers(0, 32, (count, size, size, 3), dtype=np.uint8)
        self.size = size
        self.files = [zlib.compress(photo.tobytes(), 9) for photo in photos]
        self.labels = rng.integers(0, 10, count)

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        raw = b"".join(zlib.decompress(self.files[index]) for _ in range(4))  # planted
        photo = np.frombuffer(raw, np.uint8)[: self.size * self.size * 3]
        photo = photo.reshape(self.size, self.size, 3)[::4, ::4].astype(np.float32)
        return torch.from_numpy((photo - 16.0) / 9.0).permute(2, 0, 1), int(self.labels[index])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=400)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
        nn.Linear(128, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loader = DataLoader(Archive(), batch_size=16, shuffle=True)
    step = 0
    while step < args.steps:
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1


if __name__ == "__main__":
    main()
