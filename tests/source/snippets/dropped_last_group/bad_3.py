import torch


def train(model, loader, optimizer, criterion, k):
    for i, (x, y) in enumerate(loader):
        (criterion(model(x), y) / k).backward()
        if (i + 1) % k:  # found: dropped_last_group
            continue
        optimizer.step()
        optimizer.zero_grad()


def flag(model, loader, optimizer, criterion, k):
    for i, (x, y) in enumerate(loader):
        due = (i + 1) % k == 0
        (criterion(model(x), y) / k).backward()
        if due:  # found: dropped_last_group
            optimizer.step()
            optimizer.zero_grad()
