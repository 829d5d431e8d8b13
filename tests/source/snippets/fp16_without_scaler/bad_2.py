import torch
from torch.amp import autocast


def train(model, loader, optimizer, criterion):
    for x, y in loader:
        with autocast(device_type="cuda", dtype=torch.half):  # found: fp16_without_scaler
            loss = criterion(model(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
