import itertools

import torch


def endless(model, loader, optimizer, criterion, k, steps):
    data = itertools.cycle(loader)
    for i in range(steps * k):
        x, y = next(data)
        (criterion(model(x), y) / k).backward()
        if (i + 1) % k == 0:
            optimizer.step()
            optimizer.zero_grad()


def logs(model, loader, optimizer):
    for i, x in enumerate(loader):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
        if i % 10 == 0:
            print(i)
