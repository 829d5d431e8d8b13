"""Planted: the model's forward goes through the batch sample by sample."""

import argparse

import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 32))
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        codes = [self.net(x[i]) for i in range(x.shape[0])]  # planted
        return self.head(torch.stack(codes))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=400)
    args = parser.parse_args()
    torch.manual_seed(0)
    x, y = torch.randn(2048, 64), torch.randint(0, 10, (2048,))
    model = Encoder()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(args.steps):
        index = torch.randint(0, 2048, (64,))
        loss = nn.functional.cross_entropy(model(x[index]), y[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
