"""Planted: no optimizer; each parameter is updated by itself, in Python."""

import argparse

import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self, depth=60):
        super().__init__()
        self.encoder = nn.Embedding(500, 16)
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(depth))
        self.decoder = nn.Linear(16, 500)

    def forward(self, tokens):
        x = self.encoder(tokens)
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return self.decoder(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--lr", type=float, default=0.1)
    args = parser.parse_args()
    torch.manual_seed(0)
    corpus = torch.randint(0, 500, (4001,))
    model, criterion = Tagger(), nn.CrossEntropyLoss()
    lr, total_loss = args.lr, 0.0
    for step in range(args.steps):
        i = 4 * step % 3990
        data, targets = corpus[i : i + 4], corpus[i + 1 : i + 5]
        model.zero_grad()
        loss = criterion(model(data), targets)
        loss.backward()
        for p in model.parameters():  # planted
            p.data.add_(p.grad, alpha=-lr)
            p.data.mul_(1.0 - 1e-4 * lr)
        total_loss += loss.item()
        if step % 100 == 99:
            print(f"step {step + 1} loss {total_loss / 100:.4f}")
            total_loss = 0.0


if __name__ == "__main__":
    main()
