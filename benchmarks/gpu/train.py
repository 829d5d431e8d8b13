"""A small GPT with a loader on a GPU: what `benchmarks.gpu` trains with and without a technique.

`python train.py STEPS WIDTH [--layers N] [--events] [--out FILE]`: prints a JSON object, or writes
it to a file: the seconds of each block of steps, the peak of the device's memory and the losses;
with `--events` also the device's seconds a step by phase, by CUDA events set by hand. Without a GPU
it runs on the CPU.
"""

import argparse
import json
import time
from itertools import pairwise
from pathlib import Path
from statistics import median

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("steps", type=int)
parser.add_argument("width", type=int)
parser.add_argument("--layers", type=int, default=4)
parser.add_argument("--events", action="store_true")
parser.add_argument("--out", type=Path)
given = parser.parse_args()
STEPS, WIDTH, LAYERS = given.steps, given.width, given.layers
LETTERS, LENGTH, BATCH, BLOCK = 8192, 256, 16, 5
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


PHASES = ("forward", "backward", "optimizer")


class Events:
    """The device's seconds by phase, if they are asked for."""

    def __init__(self):
        self.steps = []

    def mark(self, *, first=False):
        if given.events and CUDA:
            if first:
                self.steps.append([])
            self.steps[-1].append(torch.cuda.Event(enable_timing=True))
            self.steps[-1][-1].record()

    def seconds(self):
        """By phase, the median over all steps but the first ten."""
        torch.cuda.synchronize()
        times = [
            [begin.elapsed_time(end) / 1e3 for begin, end in pairwise(step)]
            for step in self.steps[10:]
        ]
        return {name: median(step[i] for step in times) for i, name in enumerate(PHASES)}


def main():
    torch.manual_seed(0)
    length = LENGTH if CUDA else 16
    data = TensorDataset(torch.randint(0, LETTERS, (STEPS * BATCH, length + 1)))
    model = GPT().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    events = Events()
    seconds, losses, began = [], [], time.perf_counter()
    for step, (batch,) in enumerate(DataLoader(data, BATCH, num_workers=2)):
        x = batch.to(DEVICE)
        events.mark(first=True)
        logits = model(x[:, :-1])
        loss = functional.cross_entropy(logits.view(-1, LETTERS), x[:, 1:].reshape(-1))
        optimizer.zero_grad()
        events.mark()
        loss.backward()
        events.mark()
        optimizer.step()
        events.mark()
        if step % BLOCK == BLOCK - 1:
            losses.append(loss.item())  # waits for the device
            seconds.append((time.perf_counter() - began) / BLOCK)
            began = time.perf_counter()
    peak = torch.cuda.max_memory_allocated() if CUDA else None
    found = {"seconds": seconds, "peak_bytes": peak, "losses": losses}
    if events.steps:
        found["phases"] = events.seconds()
    given.out.write_text(json.dumps(found)) if given.out else print(json.dumps(found))


if __name__ == "__main__":
    main()
