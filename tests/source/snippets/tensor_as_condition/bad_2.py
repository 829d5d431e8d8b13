import torch
from torch import nn


class Router(nn.Module):
    def forward(self, x):
        gate = torch.sigmoid(self.gate(x))
        if (gate > 0.5).any():  # found: tensor_as_condition
            x = self.expert(x)
        while x.abs().max() > 10:  # found: tensor_as_condition
            x = x / 2
        return x if gate.sum() > 0 else -x  # found: tensor_as_condition
