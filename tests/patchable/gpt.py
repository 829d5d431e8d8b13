# ruff: noqa: N806, N812, RUF059
"""A small GPT on characters, with batches from a function of its own."""

import math
import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

batch_size, block_size, width, heads, depth = 8, 48, 64, 4, 2
max_iters = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
eval_interval = 50
torch.manual_seed(1337)
device = "cpu"

text = "the quick brown fox jumps over the lazy dog; " * 200
chars = sorted(set(text))
data = np.array([chars.index(c) for c in text], dtype=np.int64)


def get_batch():
    starts = torch.randint(len(data) - block_size - 1, (batch_size,)).tolist()
    x = torch.tensor(np.stack([data[i : i + block_size] for i in starts]))
    y = torch.tensor(np.stack([data[i + 1 : i + 1 + block_size] for i in starts]))
    return x.to(device), y.to(device)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        q, k, v = (
            t.unflatten(-1, (heads, -1)).transpose(1, 2) for t in self.qkv(self.ln1(x)).chunk(3, -1)
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        mixed = scores.masked_fill(future, float("-inf")).softmax(-1) @ v
        x = x + self.proj(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(block_size, width)
        self.blocks = nn.ModuleList([Block() for _ in range(depth)])
        self.head = nn.Linear(width, vocabulary)

    def forward(self, idx, targets):
        x = self.tokens(idx) + self.places(torch.arange(idx.shape[1], device=idx.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(x)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        return logits, loss


def estimate_loss():
    model.eval()
    losses = torch.zeros(5)
    for k in range(5):
        X, Y = get_batch()
        logits, loss = model(X, Y)
        losses[k] = loss.item()
    model.train()
    return losses.mean().item()


model = GPT(len(chars))
model.to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for it in range(max_iters):
    if it % eval_interval == 0:
        print(it, estimate_loss())
    X, Y = get_batch()
    logits, loss = model(X, Y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
