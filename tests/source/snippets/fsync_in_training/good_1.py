import os

import torch


def save(model, path):
    with open(path, "wb") as file:
        torch.save(model.state_dict(), file)
        os.fsync(file.fileno())


def train(model, loader, optimizer):
    for x in loader:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
    save(model, "final.pt")
