"""A training whose rank 1 stands still once: `hanging.py`."""

import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def stands_still() -> None:
    time.sleep(600)


dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    if step == 2 and first and dist.get_rank() == 1:
        stands_still()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
print("through", flush=True)
dist.barrier()
dist.destroy_process_group()
