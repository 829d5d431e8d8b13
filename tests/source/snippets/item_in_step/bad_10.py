import math
import sys

import torch
from scaling import NativeScaler

loss_scaler = NativeScaler()


def train_one_epoch(model, criterion, data_loader, optimizer, device, log):
    model.train(True)
    optimizer.zero_grad()
    for step, (samples, targets) in enumerate(data_loader):
        samples = samples.to(device, non_blocking=True)
        targets = targets.to(device, non_blocking=True)
        with torch.autocast("cuda"):
            loss = criterion(model(samples), targets)
        loss_value = loss.item()  # found: item_in_step
        if not math.isfinite(loss_value):
            sys.exit(1)
        loss_scaler(loss, optimizer, parameters=model.parameters(), update_grad=step % 4 == 0)
        if (step + 1) % 4 == 0:
            optimizer.zero_grad()
        if (step + 1) % 100 == 0:
            log(step, loss.item())
