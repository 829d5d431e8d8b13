import torch


def validate(model, loader, criterion):
    model.eval()
    losses = []
    for x, y in loader:
        losses.append(criterion(model(x), y))
    return torch.stack(losses).mean()


def run(model, loader, criterion, optimizer):
    for epoch in range(10):
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        with torch.no_grad():
            print(validate(model, loader, criterion))
