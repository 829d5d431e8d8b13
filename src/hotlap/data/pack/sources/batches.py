"""torchvision's CIFAR and MNIST folders."""

import gzip
import pickle
import struct
from pathlib import Path
from typing import Any

from hotlap.common.extras import need
from hotlap.data.errors import PackError
from hotlap.data.pack.settings import Settings
from hotlap.data.pack.sources.arrays import Arrays

_CIFAR10 = {"train": [f"data_batch_{number}" for number in range(1, 6)], "test": ["test_batch"]}
_CIFAR100 = {"train": ["train"], "test": ["test"]}
_MNIST = {"train": "train", "test": "t10k"}
_IDX = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
_SAFE = {
    ("numpy", "ndarray"), ("numpy", "dtype"), ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"), ("_codecs", "encode"),
}  # fmt: skip


def torchvision_layout(root: Path, how: Settings | None = None) -> Arrays | None:
    """Open a CIFAR or MNIST folder as torchvision keeps it; None of any other.

    Raises:
        PackError: the split is not said, or a file is damaged.
    """
    for below in (root, root / "cifar-10-batches-py", root / "cifar-100-python", root / "raw"):
        if (below / "batches.meta").exists() or (below / "data_batch_1").exists():
            return _cifar(below, _CIFAR10[_split(below, how)], how)
        if (below / "meta").exists() and (below / "train").is_file():
            return _cifar(below, _CIFAR100[_split(below, how)], how)
        if below.is_dir() and list(below.glob("*-images-idx3-ubyte*")):
            return _mnist(below, _MNIST[_split(below, how)], how)
    return None


def _split(root: Path, how: Settings | None) -> str:
    split = how.split if how else None
    if split not in {"train", "test"}:
        raise PackError(f"{root} holds the splits train and test: give --split train")
    return split


def _cifar(root: Path, names: list[str], how: Settings | None) -> Arrays:
    numpy = need("numpy")
    parts = [_unpickled(root / name) for name in names]
    data = numpy.concatenate([part["data"] for part in parts])
    arrays = {"image": data.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)}
    for name in ("labels", "fine_labels", "coarse_labels", "filenames"):
        if name in parts[0]:
            arrays[name] = numpy.array([value for part in parts for value in part[name]])
    source = Arrays(arrays, str(root), how)
    left = {key for part in parts for key in part} - arrays.keys() - {"data"}
    source.left_out += tuple(f"entry {name}: {parts[0][name]!r}" for name in sorted(left))
    meta = next((root / name for name in ("batches.meta", "meta") if (root / name).exists()), None)
    held = _unpickled(meta) if meta else {}
    names_of = held.get("label_names") or held.get("fine_label_names") or ()
    if source.label in {"labels", "fine_labels"}:
        source.classes = tuple(names_of)
    return source


def _mnist(root: Path, prefix: str, how: Settings | None) -> Arrays:
    found = {}
    for name, kind in (("image", "images-idx3"), ("labels", "labels-idx1")):
        files = sorted(root.glob(f"{prefix}-{kind}-ubyte*"))
        if not files:
            raise PackError(f"{root} has no {prefix}-{kind}-ubyte file")
        found[name] = _idx(files[0])
    return Arrays(found, str(root), how)


def _idx(path: Path) -> object:
    """Read LeCun's idx format: two zeros, dtype, rank, sides (big-endian), then the numbers."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    try:
        zero, code, rank = struct.unpack_from(">HBB", data)
        shape = struct.unpack_from(f">{rank}I", data, 4)
        numbers = need("numpy").frombuffer(data, _IDX[code], offset=4 + 4 * rank)
        return numbers.reshape(shape if zero == 0 else -1)
    except (struct.error, KeyError, ValueError) as error:
        raise PackError(f"{path} is damaged: {error}") from None


class _Plain(pickle.Unpickler):
    """Opens pickles of dictionaries, lists and arrays, and refuses whatever could run code."""

    def find_class(self, module: str, name: str) -> object:
        if (module, name) not in _SAFE:
            raise pickle.UnpicklingError(f"it refers to {module}.{name}")
        return super().find_class(module, name)


def _unpickled(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            held = _Plain(file, encoding="latin1").load()
    except (OSError, pickle.UnpicklingError, EOFError, AttributeError) as error:
        raise PackError(f"{path} cannot be read: {error}") from None
    return {str(key): value for key, value in held.items()}
