import torch


def step(model, x, y, criterion, optimizer):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def penalty(model, x):
    with torch.autocast("cuda", enabled=False):
        loss = model(x).float().sum()
        loss.backward()
    return x.grad
