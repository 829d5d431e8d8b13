import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, width, size):
        super().__init__()
        self.key, self.value = nn.Linear(width, size), nn.Linear(width, size)

    def forward(self, x):
        return self.key(x).softmax(-1) * self.value(x)


class Heads(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = nn.ModuleList([Head(width, width // heads) for _ in range(heads)])

    def forward(self, x):
        return torch.cat([head(x) for head in self.heads], dim=-1)  # found: layers_one_by_one
