"""A loop over a DataLoader whose memory grows by some 2 MB with each sample of a batch."""

import argparse
import os

import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=4)
parser.add_argument("--samples", type=int, default=600)
parser.add_argument("--epochs", type=int, default=100_000)
parser.add_argument("--steps", type=int, default=1 << 60)
parser.add_argument("--accumulate", type=int, default=1)
parser.add_argument("--batch-sampler", action="store_true")
args = parser.parse_args()
if "WORLD_SIZE" in os.environ:
    torch.distributed.init_process_group("gloo")
torch.manual_seed(0)
data = TensorDataset(torch.randn(args.samples, 16), torch.randn(args.samples, 1))
if args.batch_sampler:
    loader = DataLoader(data, batch_sampler=BatchSampler(RandomSampler(data), 4, drop_last=False))
else:
    loader = DataLoader(data, args.batch_size, shuffle=True)
held_out = DataLoader(data, 7)
model = nn.Sequential(nn.Linear(16, 1 << 17), nn.ReLU(), nn.Linear(1 << 17, 1))
if "WORLD_SIZE" in os.environ:
    model = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
done = 0
for epoch in range(args.epochs):
    for index, (x, y) in enumerate(loader):
        loss = (model(x) - y).square().mean() / args.accumulate
        loss.backward()
        if (index + 1) % args.accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
            done += 1
        if done >= args.steps:
            raise SystemExit
    with torch.no_grad():
        x, _ = next(iter(held_out))
        print(f"epoch {epoch}: {model.eval()(x).mean().item():.3f}")
        model.train()
