"""The ordinary transform of image training: random resized crop to 224, flip, normalise, float32.

Sides with it: PIL in a DataLoader, hotlap's profiles, and FFCV. FFCV is not among hotlap's
dependencies, and is best built in an environment of its own (`apt install libopencv-dev
libturbojpeg0-dev pkg-config`, `pip install --no-build-isolation ffcv`, beside the same torch);
`FFCV_PYTHON` is then the path of that environment's interpreter.
"""

import io
import math
import os
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from benchmarks.data.images import listed

SIZE = 224
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SCALE, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)
FFCV_SIDES = {"ffcv.beton": None, "ffcv341.beton": 341}
"""Files of FFCV, and the longest side that its images are stored with (`max_resolution`)."""


def interpreter(side: str) -> str:
    """Return the Python that runs a side."""
    return os.environ.get("FFCV_PYTHON", sys.executable) if "FFCV" in side else sys.executable


class Augmented(Dataset[Any]):
    """(float image of 224 x 224, label), as torchvision's transforms make it with PIL.

    Draws are Python's own, which cost less than torchvision's of single tensors.
    """

    def __init__(self, root: Path) -> None:
        self.paths, self.labels = listed(root)
        self._mean, self._std = (torch.tensor(values).view(3, 1, 1) for values in (MEAN, STD))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        with Image.open(io.BytesIO(Path(self.paths[index]).read_bytes())) as image:
            whole = image.convert("RGB")
        left, top, width, height = _box(*whole.size)
        crop = whole.crop((left, top, left + width, top + height))
        small = crop.resize((SIZE, SIZE), Image.Resampling.BILINEAR)
        if random.random() < 0.5:
            small = small.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        pixels = torch.from_numpy(np.array(small)).permute(2, 0, 1).contiguous().float().div_(255)
        return pixels.sub_(self._mean).div_(self._std), self.labels[index]


def _box(width: int, height: int) -> tuple[int, int, int, int]:
    for _ in range(10):
        area = width * height * random.uniform(*SCALE)
        ratio = math.exp(random.uniform(math.log(RATIO[0]), math.log(RATIO[1])))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return random.randint(0, width - w), random.randint(0, height - h), w, h
    return 0, 0, width, height


def dataloader(folder: Path, batch: int, workers: int) -> Any:
    """PIL in a DataLoader."""
    more = {"num_workers": workers, "persistent_workers": True} if workers else {}
    return DataLoader(Augmented(folder / "images"), batch, shuffle=True, **more)


def hotlap(store: Path, batch: int, workers: int) -> Any:
    """Return hotlap's loader of a store, a thread in each process."""
    from hotlap.data import Loader
    from hotlap.data.transforms import Normalize, RandomHorizontalFlip, RandomResizedCrop

    chain = [RandomResizedCrop(SIZE), RandomHorizontalFlip(), Normalize(MEAN, STD)]
    return Loader(store, batch, shuffle=True, transform=chain, workers=workers, threads=1)


def ffcv(beton: Path, batch: int, workers: int) -> Any:
    """FFCV as its own ImageNet example is, but for the GPU: float32 by its table, on the CPU."""
    from ffcv.fields.basics import IntDecoder
    from ffcv.fields.rgb_image import RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import (
        NormalizeImage,
        RandomHorizontalFlip,
        Squeeze,
        ToTensor,
        ToTorchImage,
    )

    mean, std = np.array(MEAN) * 255, np.array(STD) * 255
    image = [
        RandomResizedCropRGBImageDecoder((SIZE, SIZE), SCALE, RATIO),
        RandomHorizontalFlip(),
        NormalizeImage(mean, std, np.float32),
        ToTensor(),
        ToTorchImage(),
    ]
    return Loader(
        str(beton),
        batch_size=batch,
        num_workers=workers,
        order=OrderOption.RANDOM,
        os_cache=True,
        drop_last=False,
        pipelines={"image": image, "label": [IntDecoder(), ToTensor(), Squeeze()]},
    )


class _Pictures:
    """What FFCV writes: (image, label), by PIL."""

    def __init__(self, root: Path) -> None:
        self.paths, self.labels = listed(root)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        with Image.open(self.paths[index]) as image:
            return image.convert("RGB"), self.labels[index]


def write_ffcv(folder: Path) -> None:
    """Write FFCV's files, JPEGs with its own quality (90), where they are not there yet."""
    from ffcv.fields import IntField, RGBImageField
    from ffcv.writer import DatasetWriter

    for name, longest in FFCV_SIDES.items():
        if not (folder / name).exists():
            image = RGBImageField(write_mode="jpg", max_resolution=longest)
            fields = {"image": image, "label": IntField()}
            writer = DatasetWriter(str(folder / name), fields, num_workers=1)
            writer.from_indexed_dataset(_Pictures(folder / "images"))
