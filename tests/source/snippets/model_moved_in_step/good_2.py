import torch
from torch import nn


def train(loader, device, teacher):
    """The teacher leaves the device between its turns, to make room."""
    model = nn.Linear(8, 8).to(device)
    teacher = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        teacher.to(device)
        with torch.no_grad():
            target = teacher(x)
        teacher.to("cpu")
        optimizer.zero_grad()
        (model(x) - target).pow(2).mean().backward()
        optimizer.step()
