import torch


def train(model, loader, optimizer, criterion, scaler, args):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        if args.amp:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
