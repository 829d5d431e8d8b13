import torch


def train(model, loader, optimizer, criterion, k):
    for i, (x, y) in enumerate(loader):
        (criterion(model(x), y) / k).backward()
        if (i + 1) % k == 0 or i == len(loader) - 1:
            optimizer.step()
            optimizer.zero_grad()


def stepped_after(model, loader, optimizer, criterion, k):
    for i, (x, y) in enumerate(loader):
        (criterion(model(x), y) / k).backward()
        if (i + 1) % k == 0:
            optimizer.step()
            optimizer.zero_grad()
    if (i + 1) % k:
        optimizer.step()
        optimizer.zero_grad()
