"""Samples stay on the CPU, and batches are copied in the step; types, models and CPUs are others."""

import torch
from torch.utils.data import DataLoader, Dataset

device = torch.device("cpu")


class Rows(Dataset):
    def __init__(self, rows, where):
        self.rows = torch.as_tensor(rows).to(where)
        self.mask = torch.ones(8)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        index = torch.as_tensor(i, device=self.rows.device)
        row = self.rows[index].to(torch.float32)
        return row.to("cpu") * self.mask.to(row.device), row.to(device)


def collate(rows):
    return torch.stack(rows).to(torch.float16)


class Model(torch.nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = torch.nn.ModuleList(layers)

    def __getitem__(self, i):
        return self.layers[i].to(self.device)


loader = DataLoader(Rows(table, "cpu"), batch_size=64, collate_fn=collate, num_workers=2)
for x, y in loader:
    x, y = x.to("cuda", non_blocking=True), y.cuda(non_blocking=True)
