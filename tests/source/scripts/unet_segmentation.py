"""U-Net for road segmentation on aerial images."""

import gc
import logging
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image
from torch import optim
from torch.utils.data import DataLoader, Dataset, random_split

ROOT = Path("data/roads")


class Roads(Dataset):
    def __init__(self, root):
        self.images = sorted((root / "images").glob("*.png"))
        self.masks = root / "masks"

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        path = self.images[index]
        image = np.asarray(Image.open(path).convert("RGB"), dtype=np.float32) / 255
        mask = np.asarray(Image.open(self.masks / path.name), dtype=np.int64)
        return torch.from_numpy(image.transpose(2, 0, 1).copy()), torch.from_numpy(mask)


class DoubleConv(nn.Module):
    """(convolution => [BN] => ReLU) * 2"""

    def __init__(self, in_channels, out_channels, mid_channels=None):
        super().__init__()
        if not mid_channels:
            mid_channels = out_channels
        self.double_conv = nn.Sequential(
            nn.Conv2d(in_channels, mid_channels, kernel_size=3, padding=1),  # found: bias_before_norm
            nn.BatchNorm2d(mid_channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(mid_channels, out_channels, kernel_size=3, padding=1),  # found: bias_before_norm
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
        )

    def forward(self, x):
        return self.double_conv(x)


class Down(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.reduce = nn.Conv2d(in_channels, in_channels, 3, stride=2, padding=1)  # found: bias_before_norm
        self.bn = nn.BatchNorm2d(in_channels)
        self.conv = DoubleConv(in_channels, out_channels)

    def forward(self, x):
        x = F.relu(self.bn(self.reduce(x)))
        return self.conv(x)


class Up(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.up = nn.ConvTranspose2d(in_channels, in_channels // 2, kernel_size=2, stride=2)
        self.conv = DoubleConv(in_channels, out_channels)

    def forward(self, x1, x2):
        x1 = self.up(x1)
        dy, dx = x2.size(2) - x1.size(2), x2.size(3) - x1.size(3)
        x1 = F.pad(x1, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        return self.conv(torch.cat([x2, x1], dim=1))


class UNet(nn.Module):
    def __init__(self, n_channels=3, n_classes=2):
        super().__init__()
        self.inc = DoubleConv(n_channels, 64)
        self.down1 = Down(64, 128)
        self.down2 = Down(128, 256)
        self.down3 = Down(256, 512)
        self.up1 = Up(512, 256)
        self.up2 = Up(256, 128)
        self.up3 = Up(128, 64)
        self.outc = nn.Conv2d(64, n_classes, kernel_size=1)
        self.register_buffer("window", torch.ones(1, 1, 5, 5) / 25)

    def forward(self, x):
        x1 = self.inc(x)
        x2 = self.down1(x1)
        x3 = self.down2(x2)
        x4 = self.down3(x3)
        x = self.up1(x4, x3)
        x = self.up2(x, x2)
        x = self.up3(x, x1)
        smoothed = []
        for i in range(x.size(0)):  # found: loop_over_samples
            sample = x[i].unsqueeze(1)
            smoothed.append(F.conv2d(sample, self.window, padding=2).squeeze(1))
        return self.outc(torch.stack(smoothed))


def dice(prediction, mask, epsilon=1e-6):
    prediction = prediction.softmax(1)[:, 1]
    overlap = (prediction * mask).sum((1, 2))
    return ((2 * overlap + epsilon) / (prediction.sum((1, 2)) + mask.sum((1, 2)) + epsilon)).mean()


def evaluate(net, loader, device):
    net.eval()  # found: train_mode_lost
    score = torch.zeros((), device=device)
    with torch.inference_mode():
        for image, mask in loader:
            image = image.to(device, non_blocking=True)
            mask = mask.to(device, non_blocking=True)
            score += dice(net(image), mask)
    return score / len(loader)


def train_net(net, device, epochs=20, batch_size=8, lr=1e-4):
    dataset = Roads(ROOT)
    n_val = len(dataset) // 10
    train_set, val_set = random_split(dataset, [len(dataset) - n_val, n_val])
    options = dict(batch_size=batch_size, num_workers=4, pin_memory=True, persistent_workers=True)
    train_loader = DataLoader(train_set, shuffle=True, **options)
    val_loader = DataLoader(val_set, drop_last=True, **options)
    optimizer = optim.AdamW(net.parameters(), lr=lr, fused=True)
    criterion = nn.CrossEntropyLoss()
    net.train()
    with torch.autograd.profiler.profile(use_device="cuda") as prof:  # found: profiler_on
        for epoch in range(epochs):
            for images, masks in train_loader:
                images = images.to(device, non_blocking=True)
                masks = masks.to(device, non_blocking=True)
                logits = net(images)
                loss = criterion(logits, masks) + 1 - dice(logits, masks)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                gc.collect()  # found: collected_in_step
            score = evaluate(net, val_loader, device)
            logging.info("epoch %d dice %.4f", epoch, score.item())
            torch.save(net.state_dict(), f"checkpoints/epoch{epoch}.pth")
    print(prof.key_averages().table(sort_by="cuda_time_total"))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    device = torch.device("cuda")
    train_net(UNet().to(device), device)
