import torch


def validate(model, loader):
    model.eval()  # found: train_mode_lost
    with torch.no_grad():
        return sum((model(x).argmax(1) == y).sum() for x, y in loader)


def fit(model, loader, val_loader, optimizer, criterion):
    model.train()
    for epoch in range(30):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        print(validate(model, val_loader))
