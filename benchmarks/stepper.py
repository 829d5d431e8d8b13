"""A training loop that runs so many steps for each line of stdin, and prints how long they took.

`200 bare` takes the hooks of all optimizers out for these steps.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import nn
from torch.optim.optimizer import _global_optimizer_post_hooks as hooks

torch.set_num_threads(1)
torch.manual_seed(0)
width, batch = int(sys.argv[1]), int(sys.argv[2])
inputs, labels = torch.randn(batch, 64), torch.randint(0, 10, (batch,))
model = nn.Sequential(
    nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def step() -> None:
    """One step as any script makes it."""
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()


@contextmanager
def bare() -> Iterator[None]:
    """Without hooks."""
    kept = dict(hooks)
    hooks.clear()
    yield
    hooks.update(kept)


for line in sys.stdin:
    steps, *without = line.split()
    with bare() if without else nullcontext():
        begin = time.perf_counter()
        for _ in range(int(steps)):
            step()
        took = time.perf_counter() - begin
    print(took, flush=True)
