import torch


def train(model, loader, optimizer, other, criterion, scaler):
    for x, y in loader:
        optimizer.zero_grad()
        other.zero_grad()
        scaler.scale(criterion(model(x), y)).backward()
        scaler.step(optimizer)
        scaler.update()
        model(x).float().mean().backward()
        other.step()
