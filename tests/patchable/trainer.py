"""A Trainer class of the user's own: a step method, a checkpoint, a debugging aid left on."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.autograd.set_detect_anomaly(True)


class Trainer:
    def __init__(self, model, loader, lr):
        self.model = model
        self.loader = loader
        self.criterion = nn.MSELoss()
        self.optimizer = torch.optim.Adam(
            self.model.parameters(),
            lr=lr,  # found by hand
        )

    def step(self, inputs, targets):
        self.optimizer.zero_grad()
        outputs = self.model(inputs)
        loss = self.criterion(outputs, targets)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def fit(self, epochs):
        for epoch in range(epochs):
            self.model.train()
            total = 0.0
            for inputs, targets in self.loader:
                total += self.step(inputs, targets)
            print(epoch, total / len(self.loader))

    def save(self, path):
        torch.save(self.model.state_dict(), path)


def main():
    torch.manual_seed(0)
    inputs = torch.randn(512, 64)
    targets = inputs.sin().cumsum(1)
    loader = DataLoader(TensorDataset(inputs, targets), batch_size=32, shuffle=True)
    layers = [layer for _ in range(6) for layer in (nn.Linear(64, 64), nn.Tanh())]
    model = nn.Sequential(*layers, nn.Linear(64, 64))
    trainer = Trainer(model, loader, lr=1e-3)
    trainer.fit(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)


if __name__ == "__main__":
    main()
