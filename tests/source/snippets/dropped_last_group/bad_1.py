import torch


def train(model, loader, optimizer, criterion, k):
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y) / k
        loss.backward()
        if (i + 1) % k == 0:  # found: dropped_last_group
            optimizer.step()
            optimizer.zero_grad()
