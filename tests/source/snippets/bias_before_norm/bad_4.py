from collections import OrderedDict

from torch import nn


def stem():
    return nn.Sequential(
        OrderedDict(
            [
                ("conv", nn.ConvTranspose2d(64, 32, 4, 2, 1)),  # found: bias_before_norm
                ("bn", nn.SyncBatchNorm(32)),
                ("act", nn.ReLU()),
            ]
        )
    )


def vgg(cfg, batch_norm):
    layers, width = [], 3
    for v in cfg:
        conv2d = nn.Conv2d(width, v, kernel_size=3, padding=1)  # found: bias_before_norm
        layers += [conv2d, nn.BatchNorm2d(v), nn.ReLU(inplace=True)]
        width = v
    return nn.Sequential(*layers)
