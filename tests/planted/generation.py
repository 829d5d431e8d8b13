"""Planted: a text is generated every few steps, by a forward over all of it for each token."""

import argparse

import torch
from torch import nn


class CharModel(nn.Module):
    def __init__(self, vocabulary=64, width=64, length=256):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(width, 4, 128, dropout=0.0, batch_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(width, vocabulary)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length))

    def forward(self, index):
        length = index.size(1)
        x = self.tokens(index) + self.places.weight[:length]
        return self.head(self.blocks(x, mask=self.mask[:length, :length], is_causal=True))


@torch.no_grad()
def sample(model, start, count):
    model.eval()
    text = start
    for _ in range(count):
        logits = model(text)  # planted
        chances = torch.softmax(logits[:, -1], dim=-1)
        text = torch.cat([text, torch.multinomial(chances, 1)], dim=1)
    model.train()
    return text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=400)
    args = parser.parse_args()
    torch.manual_seed(0)
    text = torch.randint(0, 64, (20000,))
    model = CharModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for step in range(args.steps):
        at = torch.randint(0, 19000, (8,)).tolist()
        x = torch.stack([text[i : i + 64] for i in at])
        y = torch.stack([text[i + 1 : i + 65] for i in at])
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if (step + 1) % 10 == 0:
            print(
                f"step {step + 1} loss {loss.item():.4f}", sample(model, text[None, :8], 120).sum()
            )


if __name__ == "__main__":
    main()
