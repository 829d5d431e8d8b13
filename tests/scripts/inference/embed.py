"""Embeds documents that a DataLoader with a slow dataset gives, under inference_mode.

`embed.py [DOCUMENTS]`
"""

import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Documents(Dataset):
    def __len__(self):
        return int((sys.argv[1:] or ["480"])[0])

    def __getitem__(self, index):
        time.sleep(0.001)
        generator = torch.Generator().manual_seed(index)
        return torch.randint(0, 300, (32,), generator=generator)


@torch.inference_mode()
def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(300, 64), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 32))
    model.eval()
    found = [model(batch).mean(1) for batch in DataLoader(Documents(), batch_size=8)]
    print(torch.cat(found).shape)


if __name__ == "__main__":
    main()
