from torch import nn


class PaddedConv(nn.Module):
    def __init__(self, inputs, outputs, bias=False):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, bias=bias)

    def forward(self, x):
        return self.conv(x)


def block(inputs, outputs, normalize=True):
    layers = [nn.Conv2d(inputs, outputs, 3, bias=not normalize)]
    if normalize:
        layers.append(nn.BatchNorm2d(outputs))
    return layers


model = nn.Sequential(PaddedConv(3, 32), nn.BatchNorm2d(32), *block(32, 64))
