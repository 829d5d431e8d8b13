import torch
from torch import nn


class CrossAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, q, k, v, bias):
        logits = torch.bmm(q, k.permute(0, 2, 1))
        logits = logits / q.shape[-1] ** 0.5 + bias
        return torch.bmm(self.softmax(logits), v)  # found: attention_by_hand


def einsum_attention(q, k, v, scale):
    sim = torch.einsum("b h i d, b h j d -> b h i j", q, k) * scale
    attn = sim.softmax(dim=-1)
    out = torch.einsum("b h i j, b h j d -> b h i d", attn, v)  # found: attention_by_hand
    return out
