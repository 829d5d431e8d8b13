"""Planted: a metric object goes through the predictions of a scripted model one by one."""

import argparse

import torch
from torch import nn


class Confusion:
    """A confusion matrix that is updated after each step."""

    def __init__(self, classes):
        self.matrix = [[0] * classes for _ in range(classes)]

    def update(self, output, target):
        predicted = output.argmax(dim=1)
        for i in range(len(target)):
            self.matrix[target[i].item()][predicted[i].item()] += 1  # planted

    def accuracy(self):
        right = sum(row[i] for i, row in enumerate(self.matrix))
        return right / max(1, sum(map(sum, self.matrix)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=2000)
    args = parser.parse_args()
    torch.manual_seed(0)
    x, y = torch.randn(2048, 64), torch.randint(0, 10, (2048,))
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    model = torch.jit.trace(net, x[:256])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    metric = Confusion(10)
    for step in range(args.steps):
        index = torch.randint(0, 2048, (256,))
        output = model(x[index])
        loss = nn.functional.cross_entropy(output, y[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        metric.update(output.detach(), y[index])
        if step % 100 == 0:
            print(f"step {step} accuracy {metric.accuracy():.4f}")


if __name__ == "__main__":
    main()
