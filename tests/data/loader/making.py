"""Small stores and datasets for the loader's tests."""

import random

import numpy as np
import simplejpeg
import torch
from PIL import Image

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
    how = {"workers": 1, "shards": 2, "constant_label": True}
    return pack(root / "src", root / "jpeg", **how, **options)


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


def mixed_store(root, count=24, **options):
    """Images of every kind that decoders part ways over, each with its number as its label."""
    for i in range(count):
        pixels = photo(i, 40 + i % 5, 50 + i % 7)
        folder = root / "src" / f"c{i:03d}"
        folder.mkdir(parents=True)
        name, data = _kind(i, pixels)
        (folder / name).write_bytes(options.pop(f"bad{i}", data))
    return pack(root / "src", root / "mixed", workers=1, shards=2, **options)


def _kind(i, pixels):
    exif = Image.Exif()
    exif[0x0112] = 1 + i // 8 % 8
    deep = pixels[..., 0].astype(np.uint16) * 257 + 40
    return [
        ("x.jpg", encoded(pixels)),
        ("x.jpg", encoded(pixels, subsampling=0, exif=exif)),
        ("x.jpg", encoded(pixels, mode="L")),
        ("x.jpg", encoded(pixels, progressive=True)),
        ("x.jpg", encoded(pixels, mode="CMYK")),
        ("x.png", encoded(pixels, "PNG")),
        ("x.png", encoded(deep, "PNG")),
        ("x.jpg", encoded(pixels, exif=exif)),
    ][i % 8]


class Turbo:
    """Stands for nvJPEG: the planar pixels of many JPEGs, none of them when one is refused."""

    def __init__(self, refuses=(), **how):
        self.refuses = refuses
        self.how = how
        self.calls = []

    def __call__(self, jpegs, device):
        assert all(jpeg.dtype is torch.uint8 and jpeg.device.type == "cpu" for jpeg in jpegs)
        self.calls.append([bytes(jpeg.numpy()) for jpeg in jpegs])
        return [self._one(data).to(device) for data in self.calls[-1]]

    def _one(self, data):
        if data in self.refuses:
            raise RuntimeError("Error while decoding JPEG images: refused")
        try:
            pixels = simplejpeg.decode_jpeg(data, "RGB", **self.how)
        except ValueError as error:
            raise RuntimeError(str(error)) from error
        return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()
