"""What sparse gradients of an embedding table save, by its size and the optimizer.

`python -m benchmarks.tables`: steps of a small click model with a full gradient and with
sparse=True, by turns on one thread. `took` is the part of the optimizer and the backward pass of
the full one that sparse gradients take away; `gives` of hotlap.techniques.sparse_embeddings is set
by it.
"""

import time
from collections.abc import Callable
from statistics import median, quantiles

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adagrad, Adam, Optimizer, SparseAdam

from benchmarks import record

PAIRS = 31
BATCH, WIDTH = 512, 32
ROWS = (2_000, 10_000, 50_000, 300_000)
OPTIMIZERS: dict[str, tuple[type[Optimizer], type[Optimizer]]] = {
    "SGD": (SGD, SGD), "Adagrad": (Adagrad, Adagrad), "Adam and SparseAdam": (Adam, SparseAdam),
}  # fmt: skip
Row = dict[str, object]


class Clicks(nn.Module):
    """A table and two layers."""

    def __init__(self, rows: int, *, sparse: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(rows, WIDTH, sparse=sparse)
        self.layers = nn.Sequential(nn.Linear(WIDTH, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, rows: Tensor) -> Tensor:
        """(batch,) to (batch, 1)."""
        made: Tensor = self.layers(self.table(rows))
        return made


def trainer(
    rows: int, of_table: type[Optimizer], *, sparse: bool
) -> Callable[[Tensor], tuple[float, float]]:
    """A function that makes a step, and gives its seconds, and those after the forward pass."""
    torch.manual_seed(0)
    model = Clicks(rows, sparse=sparse)
    table = of_table(model.table.parameters(), lr=0.01)
    layers = SGD(model.layers.parameters(), lr=0.01)

    def step(batch: Tensor) -> tuple[float, float]:
        began = time.thread_time()
        loss = model(batch).square().mean()
        forward = time.thread_time()
        table.zero_grad()
        layers.zero_grad()
        loss.backward()
        table.step()
        layers.step()
        end = time.thread_time()
        return end - began, end - forward

    return step


def measured(rows: int, name: str) -> Row:
    """How much faster a step with sparse gradients is."""
    full, few = OPTIMIZERS[name]
    steps = trainer(rows, full, sparse=False), trainer(rows, few, sparse=True)
    pairs = []
    for _ in range(PAIRS):
        batch = torch.randint(rows, (BATCH,))
        pairs.append([step(batch) for step in steps])
    ratios = [a[0] / b[0] for a, b in pairs[1:]]
    took = [1 - b[1] / a[1] for a, b in pairs[1:]]
    low, _, high = quantiles(ratios, n=4)
    return {"rows": rows, "optimizer": name, "ratio": median(ratios), "quartiles": (low, high),
            "took": median(took)}  # fmt: skip


def main() -> None:
    """Measure every size with every optimizer and write the record."""
    torch.set_num_threads(1)
    rows = [measured(size, name) for name in OPTIMIZERS for size in ROWS]
    summary = {
        f"{row['rows']} rows, {row['optimizer']}": f"{float(str(row['ratio'])):.2f}x, "
        f"{float(str(row['took'])):.0%} of optimizer and backward"
        for row in rows
    }
    record.write("tables", "python -m benchmarks.tables", rows, summary)


if __name__ == "__main__":
    main()
