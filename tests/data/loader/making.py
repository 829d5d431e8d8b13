"""Small stores and datasets for the loader's tests."""

import random

import numpy as np
import torch

from data.images import encoded, photo
from hotlap.data.pack import pack
from hotlap.data.pack.sources import Arrays


def raw_store(root, count=53, seed=0):
    rows = np.random.default_rng(seed).integers(0, 256, (count, 6, 5, 3), dtype=np.uint8)
    store = pack(Arrays({"x": rows, "y": np.arange(count)}), root / "raw", profile="raw", shards=3,
                 workers=1)  # fmt: skip
    return rows, store


def jpeg_store(root, count=22, **options):
    (root / "src" / "a").mkdir(parents=True)
    for i in range(count):
        data = encoded(photo(i, 40 + i % 5, 50 + i % 7))
        (root / "src" / "a" / f"{i:03d}.jpg").write_bytes(data)
    return pack(root / "src", root / "jpeg", workers=1, shards=2, **options)


class Dataset:
    """Draws from every global stream, as augmentations do."""

    def __init__(self, count=31):
        self.count = count
        self.scale = 1.0

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        noise = torch.rand(3)
        return {
            "x": noise * self.scale + index,
            "drawn": random.random() + float(np.random.rand()),
            "id": index,
            "name": f"s{index}",
        }


def plain(batch):
    """A batch as something that `==` compares."""
    if isinstance(batch, torch.Tensor):
        return (str(batch.dtype), tuple(batch.shape), batch.flatten().tolist())
    if isinstance(batch, dict):
        return {key: plain(value) for key, value in batch.items()}
    if isinstance(batch, list | tuple):
        return [plain(value) for value in batch]
    return batch
