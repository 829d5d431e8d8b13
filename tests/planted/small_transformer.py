"""Planted: a tiny transformer written out by hand, a step of many small operations."""

import argparse
import math

import torch
from torch import nn

VOCAB, WIDTH, HEADS, CONTEXT, BATCH = 64, 32, 4, 16, 4


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH)
        self.key = nn.Linear(WIDTH, WIDTH)
        self.value = nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("mask", torch.tril(torch.ones(CONTEXT, CONTEXT)))

    def split(self, x):
        return x.view(x.shape[0], CONTEXT, HEADS, WIDTH // HEADS).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = q @ k.transpose(-2, -1) / math.sqrt(WIDTH // HEADS)
        weights = scores.masked_fill(self.mask == 0, float("-inf")).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        h = self.up(self.norm_2(x))
        h = 0.5 * h * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))
        return x + self.down(h)


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, WIDTH)
        self.positions = nn.Parameter(torch.zeros(CONTEXT, WIDTH))
        self.blocks = nn.Sequential(*(Block() for _ in range(6)))
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, x, y):
        logits = self.head(self.blocks(self.tokens(x) + self.positions))
        return nn.functional.cross_entropy(logits.view(-1, VOCAB), y.reshape(-1))


def get_batch(text):
    starts = torch.randint(0, len(text) - CONTEXT - 1, (BATCH, 1))
    window = text[starts + torch.arange(CONTEXT + 1)]
    return window[:, :-1], window[:, 1:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=400)
    args = parser.parse_args()
    torch.manual_seed(0)
    text = torch.arange(10_000) ** 2 % VOCAB
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(args.steps):
        x, y = get_batch(text)
        loss = model(x, y)  # planted
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
