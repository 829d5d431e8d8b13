"""Images made on the spot: smooth, so that encoders and resizing meet what photographs hold."""

import io

import numpy as np
from PIL import Image


def photo(seed, height=120, width=160):
    """A smooth random RGB array."""
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (max(height // 12, 2), max(width // 12, 2), 3), dtype=np.uint8)
    smooth = np.asarray(Image.fromarray(small).resize((width, height), Image.BICUBIC), "i2")
    return np.clip(smooth + rng.normal(0, 3, smooth.shape), 0, 255).astype(np.uint8)


def encoded(array, kind="JPEG", mode=None, **how):
    """Encode an array."""
    image = Image.fromarray(array)
    image = image.convert(mode) if mode else image
    buffer = io.BytesIO()
    how = {"quality": 92} | how if kind == "JPEG" else how
    image.save(buffer, kind, **how)
    return buffer.getvalue()


def folder(root, classes=2, each=6, seed=0, **size):
    """An image folder with a class per folder; returns the paths in the order of packing."""
    paths = []
    for c in range(classes):
        (root / f"class{c}").mkdir(parents=True)
        for i in range(each):
            path = root / f"class{c}" / f"{i:03d}.jpg"
            path.write_bytes(encoded(photo(seed + 1000 * c + i, **size)))
            paths.append(path)
    return paths
