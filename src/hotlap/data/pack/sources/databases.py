"""HDF5 files and LMDB environments."""

from pathlib import Path
from typing import TYPE_CHECKING

from hotlap.common.extras import Array, need
from hotlap.data.errors import PackError
from hotlap.data.pack.settings import Settings
from hotlap.data.pack.sources.base import PerProcess, looks_like_image, stamps
from hotlap.data.pack.sources.protobuf import datum
from hotlap.data.pack.sources.records import LABELS, Kind, Records, scanned

if TYPE_CHECKING:
    import h5py
    import lmdb


class Hdf5File(Records):
    """Datasets of one length (a sample along the first axis), or a group for each sample.

    Datasets of uint8 of variable length that begin as images do are encoded images.

    Raises:
        PackError: no datasets, or of several lengths.
    """

    kind = "HDF5"
    label_names = (*LABELS, "y")

    def __init__(self, path: Path, how: Settings | None = None) -> None:
        super().__init__(str(path), how)
        self._path = path
        self._file = PerProcess(self._opened)
        file = self._file()
        names = _datasets(file)
        self._groups = _groups(file)
        if self._groups:
            self._length = len(self._groups)
            self.settle(scanned(self.record(index) for index in range(self._length)))
            return
        kept = {name: file[name] for name in names if name not in self.how.drop}
        lengths = {name: len(data) if data.shape else 0 for name, data in kept.items()}
        if len(set(lengths.values())) != 1 or 0 in lengths.values():
            raise PackError(
                f"{path} has no datasets of one length: {lengths}; leave some out with --drop NAME"
            )
        self._length = next(iter(lengths.values()))
        self._names = list(kept)
        self._images = {name for name, data in kept.items() if _holds_images(data)}
        self.settle({name: self._kind(name, file[name]) for name in names})

    def __len__(self) -> int:
        return self._length

    def record(self, index: int) -> dict[str, object]:
        """Read one row of each dataset, or the datasets of one group."""
        file = self._file()
        if self._groups:
            group = file[self._groups[index]]
            return {name: _plain(group[name][()]) for name in group}
        return {name: self._value(name, file[name][index]) for name in self._names}

    def identity(self) -> str:
        """Return a digest of name, size and time."""
        return stamps([self._path])

    def _opened(self) -> "h5py.File":
        try:
            return need("h5py").File(self._path, "r")
        except OSError as error:
            raise PackError(f"{self._path} cannot be read as HDF5: {error}") from None

    def _value(self, name: str, value: Array) -> object:
        return value.tobytes() if name in self._images else _plain(value)

    def _kind(self, name: str, data: "h5py.Dataset") -> Kind:
        if name in self.how.drop:
            return Kind("bytes")
        if name in self._images:
            return Kind("image")
        if need("h5py").check_string_dtype(data.dtype):
            return Kind("text" if data.ndim == 1 else "json")
        if data.dtype.kind == "O":
            return Kind("array")
        if data.dtype.kind not in "biufc":
            raise PackError(f"the dataset {name} of {self._path} is of {data.dtype}: --drop {name}")
        if data.ndim == 1:
            return Kind("number" if data.dtype.kind != "c" else "row")
        return Kind("row", data.dtype.itemsize * int(need("numpy").prod(data.shape[1:])))


def _datasets(file: "h5py.File") -> list[str]:
    names: list[str] = []
    kind = need("h5py").Dataset
    file.visititems(lambda name, each: names.append(name) if isinstance(each, kind) else None)
    return names


def _groups(file: "h5py.File") -> list[str]:
    """Return the groups where each holds one sample: all with the same names in them."""
    groups = [name for name in file if isinstance(file[name], need("h5py").Group)]
    shapes = {tuple(sorted(file[name])) for name in groups}
    alike = len(groups) == len(file) and len(groups) > 1 and len(shapes) == 1
    return groups if alike and next(iter(shapes)) else []


def _holds_images(data: "h5py.Dataset") -> bool:
    if data.dtype.kind != "O" or data.ndim != 1 or need("h5py").check_string_dtype(data.dtype):
        return False
    first = data[0]
    return first.dtype.name == "uint8" and looks_like_image(first.tobytes()[:32])


def _plain(value: object) -> object:
    numpy = need("numpy")
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, numpy.ndarray) and value.dtype.kind in "OS":
        return [_plain(each) for each in value.tolist()]
    return value


class LmdbFolder(Records):
    """Values of an LMDB environment: encoded images, Caffe's `Datum`, or numbered fields.

    Keys such as `image-000000001` and `label-000000001` (with `num-samples`) are fields of a
    sample; otherwise each key is one sample.

    Raises:
        PackError: values of another make, such as pickles, which are not opened: they could run
            any code.
    """

    kind = "LMDB"

    def __init__(self, path: Path, how: Settings | None = None) -> None:
        super().__init__(str(path), how)
        self._path = path
        self._base = PerProcess(self._opened)
        with self._base().begin() as look:
            keys = [bytes(key) for key in look.cursor().iternext(keys=True, values=False)]
        self._fields = _numbered(keys)
        meta = {b"__len__", b"__keys__", b"num-samples", b"length"}
        self._keys = [key for key in keys if key not in meta]
        if skipped := [key.decode() for key in keys if key in meta and not self._fields]:
            self.left_out = (f"the entries {', '.join(skipped)}, which count the others",)
        first = self.record(0) if self._keys else {}
        fields = self._fields or first.keys() != {"image"}
        self.settle(
            scanned(self.record(index) for index in range(len(self)))
            if fields
            else {"image": Kind("image"), "key": Kind("text")}
        )

    def __len__(self) -> int:
        if self._fields:
            return len(next(iter(self._fields.values())))
        return len(self._keys)

    def record(self, index: int) -> dict[str, object]:
        """Read one value, or the values of one number."""
        with self._base().begin() as look:
            if self._fields:
                return {
                    name: _text_or_bytes(look.get(keys[index], b""))
                    for name, keys in self._fields.items()
                }
            value = bytes(look.get(self._keys[index], b""))
        found = self._interpreted(value)
        return found | {"key": self._keys[index].decode("utf-8", "backslashreplace")}

    def name(self, index: int) -> str:
        """Return the key."""
        if self._fields:
            return f"{self._path.name}[{index}]"
        return f"{self._path.name}/{self._keys[index].decode('utf-8', 'backslashreplace')}"

    def identity(self) -> str:
        """Return a digest of name, size and time of the data file."""
        return stamps([self._path / "data.mdb" if self._path.is_dir() else self._path])

    def _opened(self) -> "lmdb.Environment":
        package = need("lmdb")
        how = {"readonly": True, "lock": False, "readahead": False, "subdir": self._path.is_dir()}
        try:
            opened: lmdb.Environment = package.open(str(self._path), **how)
        except package.Error as error:
            raise PackError(f"{self._path} cannot be read as LMDB: {error}") from None
        return opened

    def _interpreted(self, value: bytes) -> dict[str, object]:
        if looks_like_image(value):
            return {"image": value}
        found = datum(value)
        if found is None:
            raise PackError(
                f"the values of {self._path} are neither images nor Caffe's Datum"
                + (" but pickles, which could run any code" if value[:1] == b"\x80" else "")
                + ": give the dataset class that reads them to hotlap.data.pack.pack(dataset, DST)"
            )
        return found


def _numbered(keys: list[bytes]) -> dict[str, list[bytes]]:
    """Return the keys of each field, in order, where all are NAME-NUMBER of the same numbers."""
    found: dict[str, list[bytes]] = {}
    for key in keys:
        name, _, number = key.decode("utf-8", "backslashreplace").rpartition("-")
        if name and number.isdigit():
            found.setdefault(name, []).append(key)
        elif key != b"num-samples":
            return {}
    numbers = {tuple(key.rpartition(b"-")[2] for key in entries) for entries in found.values()}
    return found if len(numbers) == 1 and len(found) > 1 else {}


def _text_or_bytes(value: bytes) -> str | bytes:
    data = bytes(value)
    if looks_like_image(data):
        return data
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data
