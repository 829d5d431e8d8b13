"""Planted: attention builds its causal mask anew in each forward, by NumPy, and moves it."""

import argparse

import numpy as np
import torch
from torch import nn


class CausalAttention(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.width = width
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(x).split(self.width, dim=2)
        n = x.size(1)
        mask = torch.from_numpy(np.triu(np.ones((n, n)), k=1) == 0).to(x.device)  # planted
        return self.out(nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask))


class Model(nn.Module):
    def __init__(self, vocabulary=64, width=32):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(CausalAttention(width) for _ in range(2))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x[:, -64:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=400)
    args = parser.parse_args()
    torch.manual_seed(0)
    text = torch.randint(0, 64, (20000,))
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Model().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for step in range(args.steps):
        at = 13 * step % 18000
        x, y = text[None, at : at + 768].to(device), text[None, at + 705 : at + 769].to(device)
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
