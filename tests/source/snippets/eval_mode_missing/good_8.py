"""Evaluated in eval mode; the second loop is not of the model that is trained."""

import torch
from torch import nn
from torch.utils.data import DataLoader

model = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.5), nn.Linear(64, 8))
teacher = torch.load("teacher.pt").eval()
loader = DataLoader(train_set, batch_size=64, num_workers=2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    model.eval()
    hits = 0
    with torch.inference_mode():
        for x, y in loader:
            hits += (model(x).argmax(1) == y).sum().item()
