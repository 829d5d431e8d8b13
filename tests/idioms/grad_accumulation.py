"""Gradient accumulation: four micro-batches to one optimizer step."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ACCUMULATE = 4

torch.manual_seed(5)
x = torch.randn(384, 16)
y = (x.sum(1) > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

updates = 0
optimizer.zero_grad()
for i, (inputs, targets) in enumerate(loader):
    loss = nn.functional.cross_entropy(model(inputs), targets) / ACCUMULATE
    loss.backward()
    if (i + 1) % ACCUMULATE == 0:
        optimizer.step()
        optimizer.zero_grad()
        updates += 1
        print(f"update {updates}: loss {loss.item() * ACCUMULATE:.5f}")

print(f"{updates} updates from {i + 1} micro-batches")
