import torch


def train(model, loader, optimizer, criterion, scaler, args):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        with torch.autocast("cpu"):
            loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        with torch.autocast("cuda", dtype=args.dtype):
            loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
