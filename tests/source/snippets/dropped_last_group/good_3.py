import torch


def train(model, loader, optimizer, criterion, k):
    for i, (x, y) in enumerate(loader):
        (criterion(model(x), y) / k).backward()
        if (i + 1) % k != 0 and i + 1 != len(loader):
            continue
        optimizer.step()
        optimizer.zero_grad()


def skips(model, loader, optimizer, criterion):
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        if i % 7 == 6:
            continue
        optimizer.step()
