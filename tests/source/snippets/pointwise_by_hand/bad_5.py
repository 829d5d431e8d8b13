import math

import torch
from torch import nn


class Norm(nn.Module):
    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        std = x.std(-1, keepdim=True)
        return self.scale * (x - mean) / (std + self.eps) + self.shift  # found: pointwise_by_hand


class Gelu(nn.Module):
    def forward(self, x):
        cdf = 0.5 * (1.0 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3))))
        return x * cdf  # found: pointwise_by_hand


class Swish(nn.Module):
    def forward(self, x):
        return x / (1 + torch.exp(-x))  # found: pointwise_by_hand


class Scaled(nn.Module):
    def forward(self, x):
        return self.weight * x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)  # found: pointwise_by_hand


class Centred(nn.Module):
    def forward(self, x):
        u = x.mean(1, True)
        s = (x - u).pow(2).mean(1, True)
        x = (x - u) / torch.sqrt(s + 1e-6)  # found: pointwise_by_hand
        return self.weight[:, None] * x
