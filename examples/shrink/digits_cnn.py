"""Handwritten digits (scikit-learn's): a CNN to shrink.

python digits_cnn.py                 trains it and writes digits_cnn.pt
hotlap shrink digits_cnn:build --checkpoint digits_cnn.pt --evaluate digits_cnn:evaluate \
    --train digits_cnn:train --test digits_cnn:test --params 0.5x --latency 1.5x --seeds 5
"""

from functools import cache

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional


@cache
def data():
    """Images (n, 1, 8, 8) and labels: 997 to train with, 400 to choose with, 400 to test with."""
    digits = load_digits()
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(0))
    images = (torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16)[order]
    labels = torch.tensor(digits.target)[order]
    return list(zip(images.split((997, 400, 400)), labels.split((997, 400, 400)), strict=True))


def build():
    def block(taken, given):
        conv = nn.Conv2d(taken, given, 3, padding=1, bias=False)
        return [conv, nn.BatchNorm2d(given), nn.ReLU()]

    return nn.Sequential(
        *block(1, 32), *block(32, 64), nn.MaxPool2d(2), *block(64, 64),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(256, 10),
    )  # fmt: skip


def train(model, epochs=12):
    images, labels = data()[0]
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    steps = epochs * -(-len(images) // 64)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, steps)
    model.train()
    for _ in range(epochs):
        for chosen in torch.randperm(len(images)).split(64):
            loss = functional.cross_entropy(model(images[chosen]), labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()


def accuracy(model, images, labels):
    answers = torch.cat([model(part).argmax(1) for part in images.split(100)])
    return (answers == labels).float().mean().item()


def evaluate(model):
    """Share of correct answers on the images that candidates are chosen with."""
    return accuracy(model, *data()[1])


def test(model):
    """Share of correct answers on images that choose nothing."""
    return accuracy(model, *data()[2])


def main():
    torch.manual_seed(0)
    model = build()
    train(model)
    torch.save(model.state_dict(), "digits_cnn.pt")
    print(f"accuracy {test(model.eval()):.4f}")


if __name__ == "__main__":
    main()
