"""A training loop that runs so many steps for each line of stdin, and prints how long they took."""

import sys
import time

import torch
from torch import nn

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


for line in sys.stdin:
    begin = time.perf_counter()
    for _ in range(int(line)):
        step()
    print(time.perf_counter() - begin, flush=True)
