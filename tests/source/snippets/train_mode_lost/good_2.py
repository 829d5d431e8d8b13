import torch


def train_epoch(model, loader, optimizer, criterion):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()


def test(model, loader):
    model.eval()
    with torch.no_grad():
        for x, y in loader:
            model(x)


def main(model, teacher, loader, test_loader, optimizer, criterion):
    teacher.eval()
    for epoch in range(30):
        train_epoch(model, loader, optimizer, criterion)
        test(model, test_loader)
    model.eval()
