"""The element type changes, or may: the conversion copies, whatever made the tensor."""

import numpy as np
import torch
from torch.utils.data import Dataset


class Transactions(Dataset):
    def __init__(self, n):
        self.rows = np.random.default_rng(0).lognormal(size=(n, 24)).astype("float64")
        self.seen = np.load("seen.npy")

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        features = [np.log1p(value) for value in self.rows[i]]
        x = torch.tensor(np.stack(features), dtype=torch.float32)
        row = torch.tensor(self.rows[i], dtype=torch.float32)
        seen = torch.tensor(self.seen[i], dtype=torch.bool)
        return x, row, seen, torch.FloatTensor(np.zeros(4)), torch.Tensor(np.load(f"{i}.npy"))


Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor
noise = Tensor(np.random.normal(0, 1, (64, 100)))
weights = torch.tensor(np.linspace(0, 1, 9), dtype=weight_type)
