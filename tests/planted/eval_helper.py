"""Planted: an experiment's test goes through a helper method, with gradients, in train mode."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Experiment:
    """A run with everything it needs, as research code keeps it."""

    def __init__(self, args):
        self.args = args
        x, y = torch.randn(768, 64), torch.randint(0, 10, (768,))
        self.train_loader = DataLoader(TensorDataset(x[:256], y[:256]), 64, shuffle=True)
        self.test_loader = DataLoader(TensorDataset(x[256:], y[256:]), 128)
        layers = [layer for _ in range(4) for layer in (nn.Linear(512, 512), nn.Tanh())]
        self.model = nn.Sequential(nn.Linear(64, 512), *layers, nn.Linear(512, 10))
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def process_one_batch(self, batch):
        x, y = batch
        return self.model(x), y

    def test(self, loader):
        total = 0.0
        for batch in loader:
            pred, true = self.process_one_batch(batch)  # planted
            total += self.criterion(pred.detach(), true).item()
        return total / len(loader)

    def train(self):
        for epoch in range(self.args.epochs):
            for batch in self.train_loader:
                self.optimizer.zero_grad()
                pred, true = self.process_one_batch(batch)
                self.criterion(pred, true).backward()
                self.optimizer.step()
            print(f"epoch {epoch} test loss {self.test(self.test_loader):.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=400)
    torch.manual_seed(0)
    Experiment(parser.parse_args()).train()
