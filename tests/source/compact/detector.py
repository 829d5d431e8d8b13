"""A detector: subdivided batches at full weight, parts of the loss logged at each step."""

import cv2
import numpy as np
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset
from torch.utils.tensorboard import SummaryWriter

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Boxes(Dataset):
    def __init__(self, images, labels):
        self.images, self.labels = images, labels

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        image = cv2.imread(self.images[i])  # found: heavy_getitem
        boxes = np.loadtxt(self.labels[i]).reshape(-1, 5)
        return image, boxes


def compute_loss(outputs, targets):
    near = outputs[:, 0] < 4
    kept = outputs[near]  # found: nonzero_in_step
    return (kept - targets.mean()).square().mean()


model = nn.Sequential(nn.Conv2d(3, 32, 3, bias=False), nn.BatchNorm2d(32), nn.LeakyReLU()).to(device)
optimizer = optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)  # found: unfused_optimizer
loader = DataLoader(Boxes(images, labels), 16, num_workers=8, pin_memory=True)  # found: workers_restarted
writer = SummaryWriter("logs")
for epoch in range(1, 301):
    model.train()
    for i, (images, targets) in enumerate(loader):  # found: full_precision_training, uncompiled_model, constant_learning_rate, channels_first_convolutions, untuned_convolutions
        images = images.to(device, non_blocking=True)
        targets = targets.to(device)  # found: blocking_copy
        loss = compute_loss(model(images), targets)
        loss.backward()  # found: undivided_accumulation
        if i % 4 == 0:  # found: dropped_last_group
            optimizer.step()
            optimizer.zero_grad()
        writer.add_scalar("loss", loss.item(), i)  # found: item_in_step, logging_in_step
