import os
from os import fsync

import torch


def save(model, path):
    with open(path, "wb") as file:
        torch.save(model.state_dict(), file)
        fsync(file.fileno())  # found: fsync_in_training


def train(model, loader, optimizer):
    for step, x in enumerate(loader):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
        if step % 100 == 0:
            save(model, "a.pt")
            os.sync()  # found: fsync_in_training
