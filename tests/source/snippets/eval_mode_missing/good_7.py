"""Loops over a loader in train mode with gradients on that are no evaluation."""

import torch
from torch import nn
from torch.utils.data import DataLoader

model = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.5), nn.Linear(64, 8))
criterion = nn.CrossEntropyLoss()
loader = DataLoader(train_set, batch_size=64, num_workers=2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def by_a_helper(take_step):
    """The backward pass is taken in a function that is passed in."""
    for x, y in loader:
        loss = criterion(model(x), y)
        take_step(loss, optimizer)
        print(loss.item())


def summed():
    """The sum of the losses is gone backward from at the end."""
    total = 0
    for x, y in loader:
        total = total + criterion(model(x), y)
    total.backward()
    optimizer.step()


def plain():
    for x, y in loader:
        scores = model(x)
        loss = criterion(scores, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print((scores.argmax(1) == y).sum().item())


plain()
summed()
by_a_helper(engine.step)
