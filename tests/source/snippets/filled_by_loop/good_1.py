import math

import torch
from torch import nn


def sinusoid(length, width):
    table = torch.zeros(length, width)
    for position in range(length):
        for i in range(width):
            table[position, i] = math.sin(position / 10000 ** (i / width))
    return table


class Net(nn.Module):
    def __init__(self, length, width):
        super().__init__()
        self.cell = nn.GRUCell(width, width)
        self.register_buffer("table", sinusoid(length, width))

    def forward(self, x, state, rows):
        outputs = torch.zeros(len(x), *state.shape)
        for t in range(len(x)):
            state = self.cell(x[t], state)
            outputs[t] = state
        padded = torch.zeros(len(rows), 80)
        for i, row in enumerate(rows):
            padded[i, : len(row)] = row
        return outputs, padded
