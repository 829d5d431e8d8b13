import torch
from torch import nn


class Attention(nn.Module):
    """Falls back to the plain formula where the fused one is missing."""

    def forward(self, q, k, v):
        if self.fused:
            return nn.functional.scaled_dot_product_attention(q, k, v)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        attn = attn.softmax(dim=-1)
        return attn @ v


class MixtureOfExperts(nn.Module):
    def forward(self, x):
        gates = torch.softmax(self.router(x), dim=-1)
        return gates @ self.experts


class Kept(nn.Module):
    def forward(self, q, k, v):
        self.attn = torch.softmax(q @ k.transpose(1, 2), dim=-1)
        return self.attn @ v
