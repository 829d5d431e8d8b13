"""Trains, then dies of an exception: traceback on stderr, exit code 1."""

import torch
from torch import nn


def check(loss, step):
    if step == 11:
        raise RuntimeError(f"loss {loss:.5f} is not good enough at step {step}")


torch.manual_seed(22)
model = nn.Linear(5, 5)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100):
    x = torch.randn(10, 5)
    loss = (model(x) - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.5f}")
    check(loss.item(), step)
