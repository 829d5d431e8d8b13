import torch

for x, y in train_loader:
    x = x.to(device, non_blocking=True)
    y = y.cuda(device, True)
    criterion(model(x), y).backward()
    optimizer.step()
weights = weights.to(device)
