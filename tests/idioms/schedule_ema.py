"""Warm-up and cosine schedule, gradient clipping, and a moving average of the weights."""

import copy
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

TOTAL, WARMUP, DECAY = 20, 4, 0.9


def factor(step):
    if step < WARMUP:
        return (step + 1) / WARMUP
    return 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (TOTAL - WARMUP)))


@torch.no_grad()
def update_average(average, model):
    for slow, fast in zip(average.parameters(), model.parameters(), strict=True):
        slow.lerp_(fast, 1 - DECAY)


torch.manual_seed(20)
x = torch.randn(160, 14)
y = x[:, :4].argmax(1)
model = nn.Sequential(nn.Linear(14, 48), nn.ReLU(), nn.Linear(48, 4))
average = copy.deepcopy(model).requires_grad_(False)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.01)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)

for epoch in range(2):
    for inputs, targets in DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets, label_smoothing=0.1)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        update_average(average, model)
    with torch.inference_mode():
        held = nn.functional.cross_entropy(average(x), y).item()
    lr = scheduler.get_last_lr()[0]
    print(f"epoch {epoch} loss {loss.item():.5f} norm {norm.item():.5f} lr {lr:.6f} ema {held:.5f}")

print("done")
