import math

import torch
from torch import nn


def sinusoid(length, width):
    table = torch.zeros(length, width)
    for position in range(length):
        for i in range(0, width, 2):
            angle = position / 10000 ** (i / width)
            table[position, i] = math.sin(angle)  # found: filled_by_loop
            table[position, i + 1] = math.cos(angle)  # found: filled_by_loop
    return table


class Net(nn.Module):
    def forward(self, x):
        return x + sinusoid(x.shape[1], x.shape[2])
