"""What an ImageFolder does without torchvision: PIL, bilinear, ToTensor, Normalize."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset

from benchmarks.data.images import listed

MEAN = torch.tensor((0.485, 0.456, 0.406)).view(3, 1, 1)
STD = torch.tensor((0.229, 0.224, 0.225)).view(3, 1, 1)


class Folder(Dataset[Any]):
    """(float image of 224 x 224, label)."""

    def __init__(self, root: Path) -> None:
        self.paths, self.labels = listed(root)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        with Image.open(self.paths[index]) as image:
            small = image.convert("RGB").resize((224, 224), Image.Resampling.BILINEAR)
        pixels = torch.from_numpy(np.asarray(small).copy()).permute(2, 0, 1).float().div(255)
        return (pixels - MEAN) / STD, self.labels[index]


class Mapped(Dataset[Any]):
    """Rows of a memory-mapped .npy, one by one."""

    def __init__(self, path: Path) -> None:
        self.rows = np.load(path, mmap_mode="r")

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(self.rows[index].copy())


class Gathered(Mapped):
    """Rows of a memory-mapped .npy, a batch at once: the least that NumPy can do."""

    def __getitems__(self, indices: list[int]) -> torch.Tensor:
        """Return a whole batch, which needs no joining."""
        return torch.from_numpy(self.rows[indices])


class InOrder(Mapped):
    """Blocks of rows as they lie in the file, whatever was asked for: one copy of the bytes."""

    def __getitems__(self, indices: list[int]) -> torch.Tensor:
        """Return as many rows as there are indices."""
        start = min(indices[0], len(self.rows) - len(indices))
        return torch.from_numpy(self.rows[start : start + len(indices)].copy())


def same(batch: torch.Tensor) -> torch.Tensor:
    """Leave a batch as it is."""
    return batch
