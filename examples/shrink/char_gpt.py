"""A small character GPT on the texts of Python's own help: a model to shrink.

python char_gpt.py                   trains it and writes char_gpt.pt
hotlap shrink char_gpt:build --checkpoint char_gpt.pt --evaluate char_gpt:evaluate \
    --train char_gpt:train --test char_gpt:test --size 2x --lower-is-better --max-drop 2%
"""

import math
from functools import cache
from pydoc_data.topics import topics

import torch
from torch import nn
from torch.nn import functional

CONTEXT, WIDTH, HEADS, LAYERS, SYMBOLS = 64, 128, 4, 2, 128


@cache
def text():
    """ASCII codes of all topics: 90 % to train with, 5 % to choose with, 5 % to test with."""
    joined = "\n".join(topics[name] for name in sorted(topics))
    codes = torch.tensor([min(ord(letter), 127) for letter in joined])
    rest = len(codes) // 20
    return codes.split((len(codes) - 2 * rest, rest, rest))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.mix = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x):
        count, length, _ = x.shape
        parts = self.qkv(self.first(x)).view(count, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        read = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.mix(read.transpose(1, 2).reshape(count, length, WIDTH))
        return x + self.mlp(self.second(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.symbols, self.places = nn.Embedding(SYMBOLS, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, SYMBOLS, bias=False)

    def forward(self, codes):
        places = torch.arange(codes.shape[1], device=codes.device)
        return self.head(self.norm(self.blocks(self.symbols(codes) + self.places(places))))


def build():
    return GPT()


def loss_of(model, rows):
    logits = model(rows[:, :-1])
    return functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())


def train(model, steps=300, rate=1e-3):
    codes = text()[0]
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, steps)
    model.train()
    for _ in range(steps):
        starts = torch.randint(len(codes) - CONTEXT, (32, 1))
        loss = loss_of(model, codes[starts + torch.arange(CONTEXT + 1)])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()


def perplexity(model, codes):
    rows = codes[: len(codes) // (CONTEXT + 1) * (CONTEXT + 1)].view(-1, CONTEXT + 1)[:512]
    losses = [loss_of(model, part).item() * len(part) for part in rows.split(64)]
    return math.exp(sum(losses) / len(rows))


def evaluate(model):
    """Perplexity of the text that candidates are chosen with."""
    return perplexity(model, text()[1])


def test(model):
    """Perplexity of text that chooses nothing."""
    return perplexity(model, text()[2])


def main():
    torch.manual_seed(0)
    model = build()
    train(model, steps=1500, rate=3e-3)
    torch.save(model.state_dict(), "char_gpt.pt")
    print(f"perplexity {test(model.eval()):.3f}")


if __name__ == "__main__":
    main()
