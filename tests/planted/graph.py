"""Planted: a graph convolution normalises the adjacency matrix in each forward."""

import argparse

import torch
from torch import nn


class Convolution(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x, adjacency):
        looped = adjacency + torch.eye(len(adjacency))
        degree = looped.sum(1).rsqrt()
        mixing = torch.diag(degree) @ looped @ torch.diag(degree)  # planted
        return self.linear(mixing @ x)


class Model(nn.Module):
    def __init__(self, features, classes, width=16):
        super().__init__()
        self.first, self.second = Convolution(features, width), Convolution(width, classes)

    def forward(self, x, adjacency):
        return self.second(self.first(x, adjacency).relu(), adjacency)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    args = parser.parse_args()
    torch.manual_seed(0)
    edges = (torch.rand(700, 700) < 0.01).float()
    adjacency = torch.maximum(edges, edges.T)
    features, labels = torch.randn(700, 64), torch.randint(0, 7, (700,))
    model = Model(64, 7)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(args.steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(features, adjacency), labels)
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
