"""Two DDP ranks, of which one may be `--late`: it sleeps as it loads each batch."""

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--late", type=int, default=-1)
options = parser.parse_args()


class Samples(Dataset):
    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        if index % 16 == 0 and dist.get_rank() == options.late:
            time.sleep(0.04)
        return torch.randn(64), index % 10


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for inputs, targets in DataLoader(Samples(), batch_size=16):
    loss = nn.functional.cross_entropy(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
