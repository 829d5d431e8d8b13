"""NumPy arrays and torch tensors, in memory or in files."""

from collections.abc import Mapping
from pathlib import Path

from hotlap.common.extras import Array, need
from hotlap.data.errors import PackError
from hotlap.data.pack.settings import Settings
from hotlap.data.pack.sources.base import digest
from hotlap.data.pack.sources.records import LABELS, Kind, Records


class Arrays(Records):
    """Arrays of one length: the largest holds the samples, the others are fields.

    Args:
        arrays: by name; numbers, or text. `labels`, `y`, `targets` become the field `label`.
        name: where they come from, for messages.
        how: what to leave out, which field is the label.
    """

    kind = "tensors"
    label_names = (*LABELS, "y")

    def __init__(
        self, arrays: Mapping[str, object], name: str = "array", how: Settings | None = None
    ) -> None:
        super().__init__(name, how)
        held = {key: _numpy(value) for key, value in arrays.items()}
        kept = {key: value for key, value in held.items() if key not in self.how.drop}
        if not kept or any(array.ndim == 0 for array in kept.values()):
            raise PackError(
                f"{name} holds no arrays of samples, or single numbers beside them: --drop those"
            )
        lengths = {key: len(array) for key, array in kept.items()}
        if len(set(lengths.values())) != 1:
            raise PackError(
                f"the arrays of {name} differ in length: {lengths}; leave some out with --drop NAME"
            )
        self._arrays = kept
        self._length = next(iter(lengths.values()))
        self.settle({key: _kind(key, held[key]) for key in held})
        self._stamp = digest([name, self.main, lengths, *(a.dtype for a in kept.values())])

    @classmethod
    def file(cls, path: Path, how: Settings | None = None) -> "Arrays":
        """Open .npy, .npz, .pt or .pth; a folder of .npy files too."""
        if path.is_dir():
            files = sorted(path.glob("*.npy"))
            return cls({file.stem: _mapped(file) for file in files}, str(path), how)
        if path.suffix == ".npy":
            return cls({path.stem: _mapped(path)}, str(path), how)
        if path.suffix == ".npz":
            return cls(_saved_by_numpy(path), str(path), how)
        return cls(_saved(path), str(path), how)

    def __len__(self) -> int:
        return self._length

    def record(self, index: int) -> dict[str, object]:
        """Return one row of each array."""
        return {key: _value(array[index]) for key, array in self._arrays.items()}

    def distinct(self, name: str) -> set[object]:
        """Return the values of an array of text."""
        return set(self._arrays[name].tolist())

    def identity(self) -> str:
        """Return a digest of names, dtypes and a thousand rows of each array."""
        step = max(1, len(self) // 1000)
        rows = (
            array[i].tobytes() for array in self._arrays.values() for i in range(0, len(self), step)
        )
        return digest([self._stamp, *rows])


def _value(value: object) -> object:
    numpy = need("numpy")
    return value.item() if isinstance(value, numpy.str_ | numpy.bytes_) else numpy.asarray(value)


def _kind(name: str, array: Array) -> Kind:
    if array.dtype.kind == "U":
        return Kind("text")
    if array.dtype.kind == "S":
        return Kind("bytes")
    if array.dtype.kind not in "biufc":
        raise PackError(f"the array {name} is of dtype {array.dtype}, no numbers: --drop {name}")
    if array.ndim == 1:
        return Kind("number") if array.dtype.kind != "c" else Kind("row", array.itemsize)
    return Kind("row", array.nbytes // max(len(array), 1))


def _mapped(path: Path) -> Array:
    try:
        array: Array = need("numpy").load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise PackError(f"{path} is not an array: {error}") from None
    return array


def _saved_by_numpy(path: Path) -> dict[str, object]:
    try:
        with need("numpy").load(path, allow_pickle=False) as saved:
            return {name: saved[name] for name in saved.files}
    except ValueError as error:
        raise PackError(f"{path} cannot be read: {error}") from None


def _saved(path: Path) -> dict[str, object]:
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


def _numpy(value: object) -> Array:
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    array: Array = need("numpy").asanyarray(value)
    return array
