import torch


def validate(model, loader):
    model.eval()
    with torch.no_grad():
        for x, y in loader:
            model(x)
    model.train()


def validate_keeping_mode(model, loader):
    was = model.training
    model.eval()
    with torch.no_grad():
        for x, y in loader:
            model(x)
    model.train(was)


def fit(model, loader, val_loader, optimizer, criterion):
    model.train()
    for epoch in range(30):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        validate(model, val_loader)
        validate_keeping_mode(model, val_loader)
