import numpy as np
import torch
from torch.utils.data import Dataset


class Recordings(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        with np.load(self.paths[index]) as record:  # found: heavy_getitem
            return torch.from_numpy(record["signal"])
