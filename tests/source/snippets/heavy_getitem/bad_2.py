import cv2
import pandas as pd
import torch
import torch.utils.data as data


class Windows(data.Dataset):
    def __getitem__(self, i):
        frame = self._read(i)
        table = pd.read_csv(self.files[i])  # found: heavy_getitem
        out = torch.zeros(10, 10)
        for a in range(10):
            for b in range(10):
                out[a, b] = table.iloc[a, b]
        return frame, out

    def _read(self, i):
        return cv2.imread(self.images[i])  # found: heavy_getitem
