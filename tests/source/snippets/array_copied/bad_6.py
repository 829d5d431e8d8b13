import numpy as np
import torch
from torch.utils.data import Dataset


class Curves(Dataset):
    def __init__(self, n):
        self.rows = np.random.default_rng(0).lognormal(size=(n, 24)).astype("float32")

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = np.stack([self.rows[i], self.rows[i - 1]])
        noise = np.ones(24, dtype=np.float32).T
        return (
            torch.tensor(row, dtype=torch.float32),  # found: array_copied
            torch.tensor(noise, dtype=torch.float),  # found: array_copied
            torch.tensor(self.rows[i], dtype=torch.float32),  # found: array_copied
        )
