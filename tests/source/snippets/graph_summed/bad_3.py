import torch


def train_step(model, batch, optimizer):
    loss = model(batch).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def train(model, loader, optimizer):
    total = 0
    for batch in loader:
        total += train_step(model, batch, optimizer)  # found: graph_summed
    return total
