"""Segmentation with a tracker: the loss read three times a step, scaler of the old module."""

import os

import torch
import wandb
from torch import nn, optim
from torch.utils.data import DataLoader

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def train_model(model, data, device, epochs=5, amp=False):
    options = dict(batch_size=8, num_workers=os.cpu_count(), pin_memory=True)
    loader = DataLoader(data, shuffle=True, **options)  # found: workers_restarted
    run = wandb.init(project="masks")
    optimizer = optim.RMSprop(model.parameters(), lr=1e-5, momentum=0.9, foreach=True)
    scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, "max")
    scaler = torch.cuda.amp.GradScaler(enabled=amp)  # found: deprecated_amp
    criterion = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        model.train()
        total = 0
        for batch in loader:  # found: uncompiled_model, untuned_convolutions
            images = batch["image"].to(device=device, memory_format=torch.channels_last)  # found: blocking_copy
            masks = batch["mask"].to(device=device, dtype=torch.long)  # found: blocking_copy
            with torch.autocast(device.type, enabled=amp):
                loss = criterion(model(images), masks)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            total += loss.item()  # found: item_in_step
            run.log({"loss": loss.item()})  # found: item_in_step, logging_in_step
        scheduler.step(total)


model = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64))
train_model(model.to(device, memory_format=torch.channels_last), masks, device)
