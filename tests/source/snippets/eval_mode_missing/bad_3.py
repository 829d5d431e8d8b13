import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import models


def main():
    model = models.resnet18().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    loader = DataLoader(train_set, batch_size=64, num_workers=2)
    val = DataLoader(val_set, batch_size=64, num_workers=2)
    for epoch in range(10):
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        with torch.no_grad():
            correct = 0
            for x, y in val:
                correct += (model(x).argmax(1) == y).sum()  # found: eval_mode_missing
