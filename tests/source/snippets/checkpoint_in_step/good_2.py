import torch


def train(model, loader, optimizer, criterion):
    for step, (x, y) in enumerate(loader):
        try:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        except KeyboardInterrupt:
            torch.save(model.state_dict(), "interrupted.pt")
            raise
        if step == 1000:
            torch.save(model.state_dict(), "last.pt")
            break
