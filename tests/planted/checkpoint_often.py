"""Planted: a checkpoint every few steps, while training waits."""

import argparse
import io

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def checkpoint(model, optimizer, step):
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    torch.save(state, io.BytesIO())  # planted


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    args = parser.parse_args()
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(512, 512), torch.randint(0, 10, (512,)))
    model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    step = 0
    while step < args.steps:
        loader = DataLoader(data, batch_size=64, shuffle=True)
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % 2 == 0:
                checkpoint(model, optimizer, step)


if __name__ == "__main__":
    main()
