"""Super-resolution: images opened by a helper, the loss printed at each step."""

from os import listdir

import torch
from PIL import Image
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset

device = torch.accelerator.current_accelerator()


def load_image(path):
    return Image.open(path).convert("YCbCr").split()[0]  # found: heavy_getitem


class Folder(Dataset):
    def __init__(self, folder, transform):
        self.paths, self.transform = listdir(folder), transform

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        return self.transform(load_image(self.paths[i]))


model = nn.Sequential(nn.Conv2d(1, 64, 5), nn.ReLU(), nn.Conv2d(64, 16, 3), nn.PixelShuffle(4)).to(device)
optimizer = optim.Adam(model.parameters(), lr=1e-2)  # found: unfused_optimizer
criterion = nn.MSELoss()
train_loader = DataLoader(Folder("train", transform), num_workers=4, batch_size=64, shuffle=True)  # found: workers_restarted, unpinned_loader
test_loader = DataLoader(Folder("test", transform), num_workers=4, batch_size=10)  # found: workers_restarted, unpinned_loader


def train(epoch):
    total = 0
    for i, (image, target) in enumerate(train_loader):  # found: full_precision_training, uncompiled_model, constant_learning_rate, channels_first_convolutions, untuned_convolutions
        image, target = image.to(device), target.to(device)  # found: pageable_copy
        optimizer.zero_grad()
        loss = criterion(model(image), target)
        total += loss.item()  # found: item_in_step
        loss.backward()
        optimizer.step()
        print(f"{epoch} {i} {loss.item():.4f}")  # found: item_in_step


def test():
    with torch.no_grad():
        for image, target in test_loader:
            worth = criterion(model(image.to(device, non_blocking=True)), target.to(device, non_blocking=True))
    return worth


for epoch in range(30):
    train(epoch)
    test()
