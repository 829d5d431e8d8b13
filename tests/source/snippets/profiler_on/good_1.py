import torch
from torch.profiler import profile, schedule


def train(model, loader, optimizer, criterion):
    with profile(schedule=schedule(wait=1, warmup=1, active=3, repeat=1)) as prof:
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
            prof.step()


def once(model, x):
    with profile() as prof:
        model(x)
    return prof
