import torch
from torch import nn


class LabelSmoothing(nn.Module):
    def __init__(self, size, padding, smoothing=0.0):
        super().__init__()
        self.criterion = nn.KLDivLoss(reduction="sum")
        self.padding, self.size = padding, size
        self.confidence, self.smoothing = 1.0 - smoothing, smoothing

    def forward(self, x, target):
        spread = x.detach().clone()
        spread.fill_(self.smoothing / (self.size - 1))
        spread.scatter_(1, target.unsqueeze(1), self.confidence)
        return self.criterion(x, spread.clone())  # found: dense_targets
