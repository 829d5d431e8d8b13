"""Evaluates a model before it trains it: a training script."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(8, 2)
x, y = torch.randn(64, 8), torch.randint(0, 2, (64,))
model.eval()
with torch.no_grad():
    for _ in range(100):
        model(x)
model.train()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4000):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
