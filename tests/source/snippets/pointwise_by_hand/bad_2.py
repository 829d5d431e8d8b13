import torch
import torch.nn.functional as F
from torch import nn


class Norm(nn.Module):
    def forward(self, x):
        var, mean = torch.var_mean(x, dim=-1, keepdim=True)
        out = (x - mean) / torch.sqrt(var + self.eps)  # found: pointwise_by_hand
        return out * self.gamma + self.beta


class RMSNorm(nn.Module):
    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))  # found: pointwise_by_hand


class LlamaNorm(nn.Module):
    def forward(self, hidden):
        variance = hidden.pow(2).mean(-1, keepdim=True)
        hidden = hidden * torch.rsqrt(variance + self.eps)  # found: pointwise_by_hand
        return self.weight * hidden
