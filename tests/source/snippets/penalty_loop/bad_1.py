import torch


def l2_penalty(model):
    total = 0.0
    for p in model.parameters():  # found: penalty_loop
        total = total + p.pow(2).sum()
    return total


def train(model, loader, optimizer, criterion, decay):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y) + 0.5 * decay * l2_penalty(model)
        loss.backward()
        optimizer.step()
