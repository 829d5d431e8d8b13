"""Memory-mapped .npy, and .pth held in RAM."""

from collections.abc import Sequence
from pathlib import Path

from hotlap.common.extras import need
from hotlap.data.formats.base import Format, Read


def _npy_write(payloads: Sequence[bytes], path: Path) -> None:
    numpy = need("numpy")
    with path.open("wb") as file:
        numpy.save(file, _rows(payloads))


def _npy_open(path: Path) -> Read:
    table = need("numpy").load(path, mmap_mode="r")
    return lambda index: table[index].copy()


def _pth_write(payloads: Sequence[bytes], path: Path) -> None:
    """One tensor of rows, or a list of tensors where lengths differ."""
    import torch

    numpy = need("numpy")
    if len({len(data) for data in payloads}) == 1:
        torch.save(torch.from_numpy(_rows(payloads)), path)
    else:
        arrays = (numpy.frombuffer(data, "u1").copy() for data in payloads)
        torch.save([torch.from_numpy(array) for array in arrays], path)


def _pth_open(path: Path) -> Read:
    import torch

    table = torch.load(path, weights_only=True)
    return lambda index: table[index].numpy().copy()


def _rows(payloads: Sequence[bytes]) -> object:
    numpy = need("numpy")
    return numpy.stack([numpy.frombuffer(data, "u1") for data in payloads])


NPY = Format(".npy, mapped", ("numpy",), _npy_write, _npy_open, rows=True)
PTH = Format(".pth, in RAM", ("numpy",), _pth_write, _pth_open)
