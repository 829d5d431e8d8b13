import torch
from torch.utils.data import Dataset

LONGEST = 128


class Lines(Dataset):
    def __init__(self, rows, length):
        self.rows, self.length = rows, length

    def __getitem__(self, index):
        ids = self.rows[index][: self.length]
        mask = [1] * len(ids) + [0] * (self.length - len(ids))
        ids = ids + [0] * (self.length - len(ids))  # found: padded_to_max_length
        return torch.tensor(ids), torch.tensor(mask)


def encode(ids):
    ids += [3] * (LONGEST - len(ids))  # found: padded_to_max_length
    return torch.tensor(ids)
