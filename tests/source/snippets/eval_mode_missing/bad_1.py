import torch


@torch.no_grad()
def validate(model, loader):
    hits = 0
    for x, y in loader:
        hits += (model(x).argmax(1) == y).sum()  # found: eval_mode_missing
    return hits


def train(model, loader, val_loader, optimizer, criterion):
    for epoch in range(10):
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        print(validate(model, val_loader))
