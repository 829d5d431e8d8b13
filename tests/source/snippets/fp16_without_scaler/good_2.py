import torch


def train(model, loader, optimizer, criterion, scaler):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


@torch.no_grad()
def predict(model, x):
    model.eval()
    with torch.autocast("cuda"):
        return model(x)
