"""Planted: the validation runs in train mode, and records gradients that nobody uses."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def validate(model, loader):
    total = 0.0
    for x, y in loader:
        total += nn.functional.cross_entropy(model(x), y).item()  # planted
    return total / len(loader)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=400)
    args = parser.parse_args()
    torch.manual_seed(0)
    x, y = torch.randn(768, 64), torch.randint(0, 10, (768,))
    train = DataLoader(TensorDataset(x[:256], y[:256]), 64, shuffle=True)
    held = DataLoader(TensorDataset(x[256:], y[256:]), 128)
    layers = [layer for _ in range(4) for layer in (nn.Linear(512, 512), nn.Tanh())]
    model = nn.Sequential(nn.Linear(64, 512), *layers, nn.Linear(512, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(args.epochs):
        for images, labels in train:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} held out {validate(model, held):.4f}")


if __name__ == "__main__":
    main()
