import torch


def train(model, loader, optimizer, criterion, k):
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y)
        loss.backward()  # found: undivided_accumulation
        if (i + 1) % k != 0 and i + 1 != len(loader):
            continue
        optimizer.step()
        optimizer.zero_grad()


def flag(model, loader, optimizer, criterion, k):
    for i, (x, y) in enumerate(loader):
        due = (i + 1) % k == 0 or i == len(loader) - 1
        loss = criterion(model(x), y)
        loss.backward()  # found: undivided_accumulation
        if due:
            optimizer.step()
            optimizer.zero_grad()
