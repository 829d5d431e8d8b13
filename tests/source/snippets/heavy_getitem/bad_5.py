import torch
from torch.utils.data import Dataset


class Windows(Dataset):
    def __init__(self, frame, columns, length):
        self.frame, self.columns, self.length = frame, columns, length

    def __len__(self):
        return len(self.frame) - self.length

    def __getitem__(self, i):
        window = self.frame.iloc[i : i + self.length]  # found: heavy_getitem
        return torch.tensor(window[self.columns].values, dtype=torch.float32)
