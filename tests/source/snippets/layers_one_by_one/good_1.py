import torch
from torch import nn
from torch.nn import functional


class TextCNN(nn.Module):
    def __init__(self, width, sizes, depth):
        super().__init__()
        self.convolutions = nn.ModuleList([nn.Conv1d(width, 100, size) for size in sizes])
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])
        self.experts = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])

    def forward(self, x, parts):
        pooled = [functional.relu(one(x)).amax(2) for one in self.convolutions]
        y = torch.cat(pooled, dim=1)
        for layer in self.layers:
            y = layer(y).relu()
        split = [expert(part) for expert, part in zip(self.experts, parts, strict=True)]
        return y, [self.experts[i](parts[i]) for i in range(4)], split
