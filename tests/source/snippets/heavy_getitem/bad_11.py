import torch
from torch.utils.data import Dataset


class Rows(Dataset):
    def __init__(self, table, scaler):
        self.table, self.scaler = table, scaler

    def __len__(self):
        return len(self.table)

    def __getitem__(self, index):
        row = self.table.iloc[[index]]
        return torch.tensor(self.scaler.transform(row)[0])  # found: heavy_getitem
