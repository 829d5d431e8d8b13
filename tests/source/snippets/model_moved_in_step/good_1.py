import torch
from torch import nn


def train(loader, device, epochs):
    model = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.to(device)
    for epoch in range(epochs):
        model.to(device)
        for x, y in loader:
            x = x.to(device, non_blocking=True)
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
        model.to("cpu")
