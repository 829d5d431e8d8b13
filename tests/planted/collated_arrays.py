"""Planted: the collate function makes each batch from a list of NumPy arrays, number by number."""

import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Signals(Dataset):
    def __init__(self, count=1024, size=784):
        rng = np.random.default_rng(0)
        self.signals = [rng.standard_normal(size).astype(np.float32) for _ in range(count)]
        self.labels = rng.integers(0, 10, count).tolist()

    def __len__(self):
        return len(self.signals)

    def __getitem__(self, index):
        return self.signals[index], self.labels[index]


def collate(samples):
    signals, labels = zip(*samples, strict=True)
    return torch.FloatTensor(signals), torch.LongTensor(labels)  # planted


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=50)
    args = parser.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(Signals(), batch_size=64, shuffle=True, collate_fn=collate)
    model = nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(args.epochs):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
