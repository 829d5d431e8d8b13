import numpy as np
import torch
from torch.utils.data import Dataset


class Rows(Dataset):
    def __init__(self, table):
        self.table = np.asarray(table)

    def __getitem__(self, index):
        row = self.table[index].tolist()
        pair = torch.tensor(row)  # found: tensor_of_tolist
        return pair, torch.tensor(np.sort(self.table[index]).tolist())  # found: tensor_of_tolist
