"""Planted: a method makes a new loader for each epoch, whose workers start anew each time."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, args):
        self.args = args
        self.x, self.y = torch.randn(512, 64), torch.randint(0, 10, (512,))
        self.model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)

    def get_loader(self):
        data = TensorDataset(self.x, self.y)
        return DataLoader(data, batch_size=64, shuffle=True, num_workers=2)

    def train_epoch(self):
        total = torch.zeros(())
        for x, y in self.get_loader():  # planted
            loss = nn.functional.cross_entropy(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.detach()
        return total / 8

    def fit(self):
        for epoch in range(self.args.epochs):
            print(f"epoch {epoch} loss {self.train_epoch():.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=200)
    torch.manual_seed(0)
    Trainer(parser.parse_args()).fit()
