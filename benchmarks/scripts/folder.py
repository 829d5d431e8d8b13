"""Train a CNN on a folder of images with augmentation in Python: epochs of few, slow batches.

`python folder.py [--epochs 12]`. The images are drawn and written when the folder is missing.
"""

import argparse
import random
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

CLASSES, IMAGES, SIZE, BATCH = 4, 320, 96, 16


class Folder(Dataset):
    """Images of shape (3, 64, 64), float32, turned and cut at random, and their classes."""

    def __init__(self, folder):
        self.files = sorted(folder.glob("*.npy"))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        image = np.load(self.files[index]).astype(np.float64) / 255.0
        if random.random() < 0.5:
            image = image[:, ::-1]
        top, left = random.randrange(SIZE - 64), random.randrange(SIZE - 64)
        image = image[top : top + 64, left : left + 64] * random.uniform(0.7, 1.3)
        for _ in range(random.randrange(3, 6)):  # a slow blur
            image = (
                image + np.roll(image, 1, 0) + np.roll(image, 1, 1) + np.roll(image, -1, 0)
            ) / 4
        image = (image - image.mean((0, 1))) / (image.std((0, 1)) + 1e-6)
        return torch.tensor(image).permute(2, 0, 1).float(), int(
            self.files[index].stem.split("-")[0]
        )


def draw(folder):
    """Write the images, `CLASS-NUMBER.npy`."""
    folder.mkdir()
    generator = np.random.default_rng(0)
    for number in range(IMAGES):
        label = number % CLASSES
        image = generator.integers(0, 80, (SIZE, SIZE, 3))
        image[20 + 10 * label : 50 + 10 * label, 30:60] += 120
        np.save(folder / f"{label}-{number}.npy", image.astype(np.uint8))


def main():
    """Train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=12)
    options = parser.parse_args()
    folder = Path("images")
    if not folder.exists():
        draw(folder)
    torch.manual_seed(0)
    random.seed(0)
    loader = DataLoader(Folder(folder), batch_size=BATCH, shuffle=True)
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(4),
        nn.Flatten(), nn.Linear(64 * 64, CLASSES),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for epoch in range(options.epochs):
        total = 0.0
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch + 1}: loss {total / len(loader):.3f}", flush=True)


if __name__ == "__main__":
    main()
