"""Packages that only parts of the library need."""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[Any]
    BoolArray = NDArray[np.bool]
    ByteArray = NDArray[np.uint8]
    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]
    UIntArray = NDArray[np.uint64]
else:  # for annotations: NumPy need not be installed
    Array = BoolArray = ByteArray = FloatArray = IntArray = UIntArray = object

_EXTRA = {
    "numpy": ("numpy", "data"),
    "xxhash": ("xxhash", "data"),
    "PIL": ("pillow", "data"),
    "simplejpeg": ("simplejpeg", "data"),
    "cv2": ("opencv-python-headless", "data"),
    "pyarrow": ("pyarrow", "formats"),
    "lmdb": ("lmdb", "formats"),
    "h5py": ("h5py", "formats"),
    "webdataset": ("webdataset", "formats"),
    "tfrecord": ("tfrecord", "formats"),
    "torchao": ("torchao", "compress"),
    "torch_pruning": ("torch-pruning", "compress"),
}


class MissingPackageError(ImportError):
    """A package that this part needs is not installed."""


@cache
def need(module: str) -> ModuleType:
    """Import an optional module.

    Raises:
        MissingPackageError: it is not installed; the message says what to install.
    """
    root = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != root:
            raise
        raise MissingPackageError(f"this needs {how_to_install(root)}") from None


def how_to_install(module: str) -> str:
    """Say that a module is not installed, and which extra or package would bring it."""
    package, extra = _EXTRA[module.partition(".")[0]]
    return f"{package}, which is not installed: pip install 'hotlap[{extra}]' (or {package} alone)"


@cache
def has(module: str) -> bool:
    """Whether a module is installed; it is not imported."""
    return find_spec(module) is not None
