"""A small GPT with a loader on a GPU: what `benchmarks.gpu` trains with and without a technique.

`python train.py STEPS WIDTH`: prints one line, `RESULT {...}`, with the seconds of each block of
steps, the peak of the device's memory and the losses. Without a GPU it runs on the CPU.
"""

import json
import sys
import time

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

STEPS, WIDTH = int(sys.argv[1]), int(sys.argv[2])
LETTERS, LENGTH, BATCH, LAYERS, BLOCK = 8192, 256, 16, 4, 5
HEADS = max(1, WIDTH // 64)
CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, HEADS, width // HEADS).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).split(width, dim=2)
        )
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(functional.gelu(self.wide(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(LETTERS, WIDTH)
        self.layers = nn.Sequential(*(Layer() for _ in range(LAYERS)))
        self.head = nn.Linear(WIDTH, LETTERS)

    def forward(self, x):
        return self.head(self.layers(self.tokens(x)))


def main():
    torch.manual_seed(0)
    length = LENGTH if CUDA else 16
    data = TensorDataset(torch.randint(0, LETTERS, (STEPS * BATCH, length + 1)))
    model = GPT().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    seconds, losses, began = [], [], time.perf_counter()
    for step, (batch,) in enumerate(DataLoader(data, BATCH, num_workers=2)):
        x = batch.to(DEVICE)
        logits = model(x[:, :-1])
        loss = functional.cross_entropy(logits.view(-1, LETTERS), x[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % BLOCK == BLOCK - 1:
            losses.append(loss.item())  # waits for the device
            seconds.append((time.perf_counter() - began) / BLOCK)
            began = time.perf_counter()
    peak = torch.cuda.max_memory_allocated() if CUDA else None
    print("RESULT", json.dumps({"seconds": seconds, "peak_bytes": peak, "losses": losses}))


if __name__ == "__main__":
    main()
