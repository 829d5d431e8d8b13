"""Images with a fixed seed, whose JPEGs are of the size that photographs have."""

from pathlib import Path

import numpy as np
from PIL import Image

NOISE = 8.4  # the JPEGs then have 74 KB on average


def photo(seed: int) -> Image.Image:
    """About 500 x 375, smooth at several scales, with some noise."""
    rng = np.random.default_rng(seed)
    width, height = int(rng.integers(440, 560)), int(rng.integers(330, 420))
    total = np.zeros((height, width, 3))
    for cells, share in ((4, 0.5), (16, 0.3), (64, 0.2)):
        small = Image.fromarray(rng.integers(0, 256, (cells, cells, 3), dtype=np.uint8))
        total += share * np.asarray(small.resize((width, height), Image.Resampling.BICUBIC))
    total += rng.normal(0, NOISE, total.shape)
    return Image.fromarray(np.clip(total, 0, 255).astype(np.uint8))


def folder(root: Path, count: int) -> None:
    """Write an image folder with eight classes."""
    for index in range(count):
        place = root / f"class{index % 8}"
        place.mkdir(parents=True, exist_ok=True)
        photo(index).save(place / f"{index:05d}.jpg", quality=87 + index % 9)


def listed(root: Path) -> tuple[list[Path], list[int]]:
    """Return the images of a folder that `folder` wrote, and the numbers of their classes."""
    paths = sorted(root.rglob("*.jpg"))
    classes = sorted({path.parent.name for path in paths})
    return paths, [classes.index(path.parent.name) for path in paths]
