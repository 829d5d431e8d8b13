"""A small GPT that draws its batches by itself: no DataLoader is there to be told."""

import argparse

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

VOCAB, WIDTH, CONTEXT = 64, 64, 64


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x):
        parts = self.qkv(self.norm_1(x)).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm_2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCAB, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(2)))
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, x, y):
        h = self.tokens(x) + self.places(torch.arange(CONTEXT))
        return F.cross_entropy(self.head(self.blocks(h)).flatten(0, 1), y.flatten())


parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--steps", type=int, default=100_000)
args = parser.parse_args()
torch.manual_seed(0)
text = torch.arange(20_000) ** 2 % VOCAB
model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(args.steps):
    starts = torch.randint(0, len(text) - CONTEXT - 1, (args.batch_size, 1))
    window = text[starts + torch.arange(CONTEXT + 1)]
    if step % 50 == 0:
        model.eval()
        with torch.no_grad():
            print(f"step {step} loss {model(window[:, :-1], window[:, 1:]).item():.4f}")
        model.train()
    loss = model(window[:, :-1], window[:, 1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
