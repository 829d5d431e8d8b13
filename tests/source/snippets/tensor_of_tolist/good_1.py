import numpy as np
import torch
from torch.utils.data import Dataset

MEANS = torch.tensor(np.arange(3).tolist())


class Rows(Dataset):
    def __init__(self, table):
        self.table = torch.tensor(table.tolist())

    def __getitem__(self, index):
        return self.table[index]
