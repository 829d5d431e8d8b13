import torch
from torch import nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.conv2 = nn.Conv2d(64, 64, 3)
        self.bn2 = nn.BatchNorm2d(64)
        self.skip = nn.Conv2d(64, 64, 1)
        self.bn3 = nn.BatchNorm2d(64)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.bn2(F.relu(self.conv2(x)))
        raw = self.skip(x)
        return torch.cat([raw, self.bn3(raw)], 1)


def vgg(cfg, batch_norm):
    layers, width = [], 3
    for v in cfg:
        conv2d = nn.Conv2d(width, v, kernel_size=3, padding=1)
        if batch_norm:
            layers += [conv2d, nn.BatchNorm2d(v), nn.ReLU(inplace=True)]
        else:
            layers += [conv2d, nn.ReLU(inplace=True)]
        width = v
    return nn.Sequential(*layers)
