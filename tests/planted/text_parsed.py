"""Planted: a line of text is parsed for each sample, in a method behind __getitem__."""

import argparse
import random
import re

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Reviews(Dataset):
    def __init__(self, count=512, words=6000):
        rng = random.Random(0)
        vocabulary = [f"word{number}" for number in range(1000)]
        self.lines = [
            f"{rng.randrange(2)}\t" + " ".join(rng.choices(vocabulary, k=words))
            for _ in range(count)
        ]
        self.ids = {word: number for number, word in enumerate(vocabulary)}

    def __len__(self):
        return len(self.lines)

    def parse(self, line):
        label, text = line.split("\t")
        words = re.findall(r"[a-z]+[0-9]*|[^ a-z0-9]", text.lower())  # planted
        return int(label), words

    def encode(self, words):
        return torch.tensor([self.ids.get(word, 0) for word in words[:50]])

    def __getitem__(self, index):
        label, words = self.parse(self.lines[index])
        return self.encode(words), label


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=50)
    args = parser.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(Reviews(), batch_size=64, shuffle=True)
    model = nn.Sequential(nn.EmbeddingBag(1000, 32), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        for tokens, labels in loader:
            loss = nn.functional.cross_entropy(model(tokens), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
