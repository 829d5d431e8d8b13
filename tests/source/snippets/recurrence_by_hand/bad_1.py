import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size, self.cell = size, nn.LSTMCell(size, size)

    def forward(self, x):
        h = c = torch.zeros(x.size(0), self.size)
        outputs = []
        for t in range(x.size(1)):  # found: recurrence_by_hand
            h, c = self.cell(x[:, t], (h, c))
            outputs.append(h)
        return torch.stack(outputs, 1)
