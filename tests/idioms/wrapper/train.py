"""Called by run.sh, which sets RUN_NAME and this working directory."""

import argparse
import os
from pathlib import Path

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, required=True)
parser.add_argument("--steps", type=int, default=12)
args = parser.parse_args()

torch.manual_seed(18)
model = nn.Linear(10, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
print(os.environ["RUN_NAME"], Path.cwd().name)
for step in range(args.steps):
    x = torch.randn(16, 10)
    loss = (model(x) - x.mean(1, keepdim=True)).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step} loss {loss.item():.6f}")
