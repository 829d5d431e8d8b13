"""Endless steps: next() by hand, a fresh iterator when the loader runs dry."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(7)
x = torch.randn(90, 12)
y = x @ torch.randn(12, 1) + 0.01 * torch.randn(90, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=20, shuffle=True, drop_last=True)
model = nn.Linear(12, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)

batches = iter(loader)
restarts = 0
for step in range(18):
    try:
        inputs, targets = next(batches)
    except StopIteration:
        restarts += 1
        batches = iter(loader)
        inputs, targets = next(batches)
    loss = nn.functional.mse_loss(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step:2d} loss {loss.item():.6f}")

print("restarts", restarts)
