"""Loader workers started by spawn or forkserver: `python worker_context.py spawn`."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __len__(self):
        return 80

    def __getitem__(self, index):
        x = torch.linspace(-1, 1, 6) * (index % 7)
        return x, x.square().mean()


def main():
    torch.manual_seed(16)
    loader = DataLoader(
        Squares(), batch_size=8, shuffle=True, num_workers=1, multiprocessing_context=sys.argv[1]
    )
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step, (x, y) in enumerate(loader):
        loss = nn.functional.mse_loss(model(x).squeeze(1), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.5f}")
    print(f"workers by {sys.argv[1]}")


if __name__ == "__main__":
    main()
