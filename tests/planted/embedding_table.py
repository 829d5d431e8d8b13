"""Planted: a batch looks up a few rows of a table whose gradient is as large as the table."""

import argparse

import torch
from torch import nn


class Clicks(nn.Module):
    def __init__(self, users, width=32):
        super().__init__()
        self.users = nn.Embedding(users, width)  # planted
        self.layers = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, users):
        return self.layers(self.users(users)).squeeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    args = parser.parse_args()
    torch.manual_seed(0)
    users = 50_000
    model = Clicks(users)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(args.steps):
        batch = torch.randint(users, (256,))
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(model(batch), (batch % 2).float())
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
