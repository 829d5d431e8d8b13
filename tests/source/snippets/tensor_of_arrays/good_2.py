import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Tokens(Dataset):
    def __getitem__(self, index):
        return {"ids": self.rows[index], "mask": np.ones(len(self.rows[index])), "length": 3}


class Images(Dataset):
    def __getitem__(self, index):
        return np.load(self.paths[index]), self.labels[index]


def collate(batch):
    ids = [sample["ids"] for sample in batch]
    return torch.tensor(ids), torch.tensor([sample["length"] for sample in batch])


def labels_alone(batch):
    return torch.tensor([label for _, label in batch])


def unused(batch):
    return torch.tensor([image for image, _ in batch])


loader = DataLoader(Tokens(), num_workers=2, persistent_workers=True, collate_fn=collate)
other = DataLoader(Images(), num_workers=2, persistent_workers=True, collate_fn=labels_alone)
