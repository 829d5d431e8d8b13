# ruff: noqa: N812, N817, PLW2901
"""A CNN with a train loop in a function, images decoded in Python, and accuracy at the end."""

import argparse

import numpy as np
import torch
import torch.nn as N
import torch.nn.functional as F
from torch.optim import SGD
from torch.utils.data import DataLoader as DL
from torch.utils.data import Dataset

SIZE = 32


class Stripes(Dataset):
    """Striped images; the class is the direction of the stripes."""

    def __init__(self, count, seed):
        draw = np.random.default_rng(seed)
        self.angles = draw.uniform(0, np.pi, count)
        self.phases = draw.uniform(0, 6, count)

    def __len__(self):
        return len(self.angles)

    def __getitem__(self, index):
        y, x = np.mgrid[0:SIZE, 0:SIZE]
        angle = self.angles[index]
        wave = np.sin(0.6 * (x * np.cos(angle) + y * np.sin(angle)) + self.phases[index])
        image = np.stack([wave, wave**2, np.abs(wave)]).astype(np.float32)
        return torch.tensor(image), int(angle / np.pi * 8)


class Net(N.Module):
    def __init__(self):
        super().__init__()
        self.body = N.Sequential(
            N.Conv2d(3, 16, 3, padding=1),
            N.ReLU(),
            N.Conv2d(16, 32, 3, stride=2, padding=1),
            N.ReLU(),
        )
        self.head = N.Linear(32, 8)

    def forward(self, images):
        return self.head(self.body(images).mean((2, 3)))


def train(net, loader, optimizer, device):
    net.train()
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        loss = F.cross_entropy(net(images), labels)
        optimizer.zero_grad(set_to_none=False)
        loss.backward()  # the expensive line
        optimizer.step()
    return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1000)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cpu")
    options = {"batch_size": 32, "shuffle": True}
    loader = DL(Stripes(256, 0), **options)
    net = Net().to(device)
    optimizer = SGD(net.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(args.epochs):
        print(epoch, train(net, loader, optimizer, device))


if __name__ == "__main__":
    main()
