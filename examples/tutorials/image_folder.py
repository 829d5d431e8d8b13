"""A folder of JPEG files, a Dataset that opens them, a small CNN: a first image classifier."""

import argparse
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

CLASSES = ("birds", "cats", "dogs")


def make_photos(root, count):
    """Noise with the colours of its class, so that no download is needed."""
    rng = np.random.default_rng(0)
    for label, name in enumerate(CLASSES):
        folder = root / name
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(count):
            coarse = rng.integers(0, 255, (9, 12, 3), dtype=np.uint8)
            coarse[..., label] //= 2
            Image.fromarray(coarse).resize((320, 240)).save(folder / f"{number:04d}.jpg")


class Photos(Dataset):
    def __init__(self, root):
        self.items = [
            (path, label)
            for label, name in enumerate(CLASSES)
            for path in sorted((root / name).iterdir())
        ]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        path, label = self.items[index]
        image = Image.open(path).convert("RGB").resize((64, 64))
        return torch.tensor(np.array(image) / 255.0, dtype=torch.float32).permute(2, 0, 1), label


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.head = nn.Linear(32, len(CLASSES))

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        return self.head(x.mean((2, 3)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--photos", type=int, default=100, help="of each class")
    args = parser.parse_args()
    root = Path("photos")
    if not root.exists():
        make_photos(root, args.photos)
    loader = DataLoader(Photos(root), batch_size=32, shuffle=True)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        total = 0.0
        for images, labels in loader:
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / len(loader):.3f}")


if __name__ == "__main__":
    main()
