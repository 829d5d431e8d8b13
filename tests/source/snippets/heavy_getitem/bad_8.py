import cv2
import numpy as np
import torch
from PIL import Image


class Pairs:
    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return self.read(self.files[index]), self.numbers(self.lines[index])

    def read(self, path):
        image = Image.open(path).convert("RGB")  # found: heavy_getitem
        return cv2.cvtColor(np.asarray(image), cv2.COLOR_RGB2BGR)

    def numbers(self, line):
        return torch.tensor([float(word) for word in line.split(",")])  # found: heavy_getitem
