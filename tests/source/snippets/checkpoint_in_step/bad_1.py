import torch


def train(model, loader, optimizer, criterion):
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
        torch.save(model.state_dict(), "last.pt")  # found: checkpoint_in_step
