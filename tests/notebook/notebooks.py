"""Notebooks of different habits, written from scratch."""

import json
from pathlib import Path
from typing import Any


def write(path: Path, *cells: str, language: str = "python", **metadata: Any) -> Path:
    """A notebook of format 4; a cell that begins with `#md` is Markdown."""
    document: dict[str, Any] = {
        "cells": [_cell(text) for text in cells],
        "metadata": metadata
        | {"kernelspec": {"display_name": "x", "language": language, "name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    path.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    return path


def _cell(text: str) -> dict[str, Any]:
    lines = text.splitlines(keepends=True)
    if text.startswith("#md"):
        return {"cell_type": "markdown", "metadata": {}, "source": lines}
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
        "source": lines,
    }


DATA = """\
import time
import torch
from torch.utils.data import DataLoader, TensorDataset

class Slow(TensorDataset):
    def __getitem__(self, index):
        time.sleep(0.0005)
        return super().__getitem__(index)

x, y = torch.randn(512, 16), torch.randint(0, 4, (512,))
loader = DataLoader(Slow(x, y), batch_size=16, shuffle=True)"""
MODEL = """\
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)"""
LOOP = """\
for epoch in range(8):
    for a, b in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(a), b)
        loss.backward()
        optimizer.step()"""

HABITS = {
    "plain": (DATA, "#md # The model", MODEL, LOOP),
    "functions": (
        DATA,
        MODEL,
        "def train(epochs):\n" + "\n".join(f"    {line}" for line in LOOP.split("\n")),
        "train(epochs=1)",
    ),
    "magics": (
        "%load_ext autoreload\n%autoreload 2\n%matplotlib inline\n!pip install nothing-at-all",
        "%%writefile sizes.py\nWIDTH = 16",
        "from sizes import WIDTH\nfiles = !echo {WIDTH}\nassert files == ['16'], files\n?print",
        DATA,
        MODEL,
        "%%time\n" + LOOP,
        "%timeit -n 1 model(x)",
    ),
    "plots": (
        "from IPython.display import clear_output, display",
        DATA,
        MODEL,
        "losses = []\n" + LOOP + "\n        losses.append(loss.item())\n    display(losses[-1])",
        "shown = display(losses, display_id=True)\nshown.update(losses[-3:])\nlosses[-3:]",
    ),
}
