"""NumPy arrays and torch tensors, in memory or in files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hotlap.data.errors import PackError
from hotlap.data.extras import need
from hotlap.data.pack.sources.base import Plain, Sample, digest

_LABELS = {"label", "labels", "y", "target", "targets", "cls"}


class Arrays(Plain):
    """Arrays of one length: the largest holds the samples, the others numbers about them.

    Args:
        arrays: by name; `labels`, `y`, `targets` become the field `label`.
        name: where they come from, for messages.

    """

    kind = "tensors"

    def __init__(self, arrays: Mapping[str, Any], name: str = "array") -> None:
        numpy = need("numpy")
        held = {key: _numpy(value) for key, value in arrays.items()}
        if not held or any(array.ndim == 0 for array in held.values()):
            raise PackError(f"{name} holds no arrays of samples")
        lengths = {key: len(array) for key, array in held.items()}
        if len(set(lengths.values())) != 1:
            raise PackError(f"the arrays of {name} differ in length: {lengths}")
        self._name = name
        main = max(held, key=lambda key: held[key].nbytes)
        self._data = held.pop(main)
        self._fields = {"label" if key in _LABELS else key: value for key, value in held.items()}
        self._stamp = digest([name, main, lengths, self._data.dtype, self._data.shape])
        self._numpy = numpy

    @classmethod
    def file(cls, path: Path) -> "Arrays":
        """Open .npy, .npz, .pt or .pth; a folder of .npy files too."""
        if path.is_dir():
            files = sorted(path.glob("*.npy"))
            return cls({file.stem: _mapped(file) for file in files}, str(path))
        if path.suffix == ".npy":
            return cls({path.stem: _mapped(path)}, str(path))
        if path.suffix == ".npz":
            with need("numpy").load(path, allow_pickle=False) as saved:
                return cls({name: saved[name] for name in saved.files}, str(path))
        return cls(_saved(path), str(path))

    def __len__(self) -> int:
        return len(self._data)

    def read(self, index: int) -> Sample:
        """Return one row."""
        fields = {key: value[index] for key, value in self._fields.items()}
        return Sample(self._numpy.asarray(self._data[index]), self.name(index), fields)

    def name(self, index: int) -> str:
        """Return file and row."""
        return f"{self._name}[{index}]"

    def identity(self) -> str:
        """Return a digest of names, shapes and a thousand rows."""
        step = max(1, len(self) // 1000)
        return digest([self._stamp, *(self._data[i].tobytes() for i in range(0, len(self), step))])


def _mapped(path: Path) -> Any:
    try:
        return need("numpy").load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise PackError(f"{path} is not an array: {error}") from None


def _saved(path: Path) -> dict[str, Any]:
    import torch

    try:
        held = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # unpickling raises all kinds on damaged files
        raise PackError(f"{path} cannot be read as tensors: {error}") from None
    if isinstance(held, torch.Tensor):
        return {"data": held}
    if isinstance(held, tuple | list) and len(held) == 2:
        return {"data": held[0], "label": held[1]}
    if isinstance(held, dict):
        return held
    raise PackError(f"{path} holds a {type(held).__name__}: expected a tensor, (x, y) or a dict")


def _numpy(value: Any) -> Any:
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    return need("numpy").asanyarray(value)
