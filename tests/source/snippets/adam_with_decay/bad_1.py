import argparse

import torch
from torch.optim import Adam

parser = argparse.ArgumentParser()
parser.add_argument("--weight-decay", "--wd", default=5e-4, type=float)
args = parser.parse_args()
first = Adam(model.parameters(), lr=0.01, weight_decay=args.weight_decay)  # found: adam_with_decay
second = torch.optim.Adam(model.parameters(), 0.01, (0.9, 0.99), 1e-8, 1e-5)  # found: adam_with_decay
