"""Handwritten digits: train a small CNN on scikit-learn's built-in data set."""

import argparse
import time

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIZE = 20


def upscale(image):
    """Bilinear resize to SIZE x SIZE: first along the rows, then along the columns."""
    old = np.linspace(0.0, 1.0, image.shape[0])
    new = np.linspace(0.0, 1.0, SIZE)
    wide = np.stack([np.interp(new, old, row) for row in image])
    return np.stack([np.interp(new, old, column) for column in wide.T]).T


def box_blur(image):
    """Mean of the 3 x 3 neighbourhood of each pixel."""
    rows = np.pad(image, 1, mode="edge").tolist()
    out = np.zeros_like(image)
    for y in range(SIZE):
        column = [a + b + c for a, b, c in zip(rows[y], rows[y + 1], rows[y + 2], strict=True)]
        for x in range(SIZE):
            out[y, x] = (column[x] + column[x + 1] + column[x + 2]) / 9.0
    return out


def stretch_contrast(image):
    low, high = np.percentile(image, (2, 98))
    return np.clip((image - low) / max(high - low, 1e-6), 0.0, 1.0)


class DigitsDataset(Dataset):
    def __init__(self, images, labels):
        self.images = images
        self.labels = labels

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = stretch_contrast(box_blur(upscale(self.images[index])))
        image = ((image - 0.3) / 0.35).astype(np.float32)
        return torch.tensor(image).unsqueeze(0), int(self.labels[index])


class SmallCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
            nn.MaxPool2d(2),
        )  # fmt: skip
        self.classifier = nn.Linear(16 * 2 * 2, 10)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


def train_one_epoch(model, loader, criterion, optimizer, device):
    model.train()
    running_loss = 0.0
    for batch in loader:
        images, labels = batch[0].to(device), batch[1].to(device)
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        running_loss += loss.item()
    return running_loss / len(loader)


def validate(model, loader, criterion, device):
    model.eval()
    total_loss, correct = 0.0, 0
    for batch in loader:
        images, labels = batch[0].to(device), batch[1].to(device)
        outputs = model(images)
        total_loss += criterion(outputs, labels).item()
        correct += (outputs.argmax(1) == labels).sum().item()
    return total_loss / len(loader), correct / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"

    digits = load_digits()
    order = np.random.permutation(len(digits.images))
    images, labels = digits.images[order], digits.target[order]
    split = int(0.8 * len(images))
    train_loader = DataLoader(
        DigitsDataset(images[:split], labels[:split]), batch_size=args.batch_size, shuffle=True
    )
    val_loader = DataLoader(
        DigitsDataset(images[split:], labels[split:]), batch_size=args.batch_size
    )

    model = SmallCNN().to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        start = time.time()
        train_loss = train_one_epoch(model, train_loader, criterion, optimizer, device)
        val_loss, accuracy = validate(model, val_loader, criterion, device)
        print(
            f"epoch {epoch + 1}/{args.epochs}  train loss {train_loss:.4f}  "
            f"val loss {val_loss:.4f}  accuracy {accuracy:.3f}  ({time.time() - start:.1f} s)"
        )


if __name__ == "__main__":
    main()
