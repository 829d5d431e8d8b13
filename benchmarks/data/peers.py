"""Other libraries' ways to feed a model: WebDataset, MDS (mosaicml-streaming), LitData.

They are not among hotlap's dependencies. Install them beside it, without letting them replace
torch, to have them measured: `pip install webdataset`, and with `--no-deps` and what their import
asks for `mosaicml-streaming litdata`. Each decodes with PIL to uint8 images of 224 x 224.
"""

import io
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader

KINDS = ("jpeg", "raw")
SHAPE = (224, 224, 3)
SHUFFLED = 1000


def pixels(data: bytes) -> torch.Tensor:
    """Decode a JPEG to uint8 (3, 224, 224)."""
    with Image.open(io.BytesIO(data)) as image:
        small = image.convert("RGB").resize(SHAPE[:2], Image.Resampling.BILINEAR)
    return torch.from_numpy(np.array(small)).permute(2, 0, 1)


def row(data: bytes) -> torch.Tensor:
    """Make a row an image."""
    return torch.from_numpy(np.frombuffer(bytearray(data), np.uint8).reshape(SHAPE))


DECODE: dict[str, Callable[[bytes], torch.Tensor]] = {"jpeg": pixels, "raw": row}


def more(workers: int) -> dict[str, Any]:
    """Return the options of a DataLoader with workers that stay."""
    return {"num_workers": workers, "persistent_workers": workers > 0}


class Pairs:
    """Turns samples as WebDataset gives them into (image, label)."""

    def __init__(self, kind: str) -> None:
        self._decode = DECODE[kind]

    def __call__(self, sample: dict[str, Any]) -> tuple[torch.Tensor, int]:
        """Decode one."""
        return self._decode(sample["bin"]), int(sample["cls"])


def webdataset(folder: Path, kind: str, batch: int, workers: int) -> Any:
    """Four tar shards, shuffled through a buffer; batches are made by the workers."""
    import webdataset as wds

    shards = sorted(str(path) for path in (folder / f"wds-{kind}").glob("*.tar"))
    rows = wds.WebDataset(shards, shardshuffle=len(shards), empty_check=False)
    rows = rows.shuffle(SHUFFLED).map(Pairs(kind)).batched(batch, partial=True)
    return wds.WebLoader(rows, batch_size=None, **more(workers))


def mds(folder: Path, kind: str, batch: int, workers: int) -> Any:
    """MosaicML's format, through its StreamingDataset."""
    without_torchvision()
    from streaming import StreamingDataset

    class Decoded(StreamingDataset):  # type: ignore[misc]
        def __getitem__(self, index: Any) -> Any:
            sample = super().__getitem__(index)
            return DECODE[kind](sample["bin"]), sample["cls"]

    data = Decoded(local=str(folder / f"mds-{kind}"), batch_size=batch, shuffle=True)
    return DataLoader(data, batch, **more(workers))


def litdata(folder: Path, kind: str, batch: int, workers: int) -> Any:
    """LitData's format, through its StreamingDataset and StreamingDataLoader."""
    from litdata import StreamingDataLoader, StreamingDataset

    class Decoded(StreamingDataset):  # type: ignore[misc]
        def __getitem__(self, index: Any) -> Any:
            sample = super().__getitem__(index)
            return DECODE[kind](sample["bin"]), sample["cls"]

    data = Decoded(str(folder / f"lit-{kind}"), shuffle=True)
    return StreamingDataLoader(data, batch_size=batch, **more(workers))


PEERS: dict[str, Callable[[Path, str, int, int], Any]] = {
    "WebDataset": webdataset,
    "MDS": mds,
    "LitData": litdata,
}


def without_torchvision() -> None:
    """Let `streaming` be imported beside a CPU torch, where torchvision is not to be had.

    Only its ready-made vision datasets use it, which are not used here.
    """
    if find_spec("torchvision") is not None:
        return
    for name in ("torchvision", "torchvision.datasets", "torchvision.transforms.functional"):
        module: Any = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        module.VisionDataset, module.CIFAR10, module.to_tensor = object, object, None
        sys.modules[name] = module
