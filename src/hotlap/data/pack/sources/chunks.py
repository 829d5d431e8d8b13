"""MDS (MosaicML Streaming) and LitData folders, read without their libraries.

Both keep an `index.json`, and binary files that begin with the number of samples and their offsets,
all uint32; a sample is the sizes of its values, then the values. MDS: `streaming/base/format/mds`,
LitData: `litdata/streaming/writer.py` and `serializers.py`.
"""

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hotlap.common.extras import need
from hotlap.data.errors import PackError
from hotlap.data.pack.settings import Settings
from hotlap.data.pack.sources.base import stamps
from hotlap.data.pack.sources.records import Kind, Records, scanned

Decode = Callable[[bytes], object]
_TO_DATASET = "give the library's own dataset to hotlap.data.pack.pack(dataset, DST)"
_TORCH = [
    "f4",
    "f4",
    "f8",
    "f8",
    "c8",
    "c8",
    "c16",
    "c16",
    "f2",
    "f2",
    "-",
    "u1",
    "i1",
    "i2",
    "i2",
    "i4",
    "i4",
    "i8",
    "i8",
    "?",
]
_NUMPY = "i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16 ?".split()  # noqa: SIM905
_MDS_ARRAYS = {
    8: "u1", 9: "i1", 16: "u2", 17: "i2", 18: "f2", 32: "u4", 33: "i4", 34: "f4", 64: "u8",
    65: "i8", 66: "f8",
}  # fmt: skip


@dataclass(frozen=True)
class Column:
    """One value of each sample: its name, its bytes where those are fixed, how it is decoded."""

    name: str
    size: int | None
    decode: Decode
    kind: Kind | None = None


class Chunks(Records):
    """Samples of files that begin with the number of samples and their offsets."""

    def __init__(
        self, root: Path, files: list[tuple[str, int]], columns: list[Column], how: Settings | None
    ) -> None:
        super().__init__(str(root), how)
        self._root = root
        self._files = files
        self._columns = columns
        self._of = [(name, at) for name, count in files for at in range(count)]
        for name, _ in files:
            if not (root / name).exists():
                raise PackError(f"{root / name} is missing: its index.json names it")
        known = {column.name: column.kind for column in columns if column.kind}
        if len(known) < len(columns):
            found = scanned(self.record(index) for index in range(len(self)))
            known = found | known
        self.settle({name: kind for name, kind in known.items() if kind})

    def __len__(self) -> int:
        return len(self._of)

    def record(self, index: int) -> dict[str, object]:
        """Read one sample."""
        file_name, number = self._of[index]
        with (self._root / file_name).open("rb") as file:
            file.seek(4 * (1 + number))
            start, end = struct.unpack("<II", file.read(8))
            file.seek(start)
            data = file.read(end - start)
        if len(data) != end - start:
            raise ValueError(f"{file_name} is cut short")
        free = sum(column.size is None for column in self._columns)
        sizes = iter(struct.unpack_from(f"<{free}I", data))
        at, found = 4 * free, {}
        for column in self._columns:
            size = next(sizes) if column.size is None else column.size
            found[column.name] = column.decode(data[at : at + size])
            at += size
        return found

    def name(self, index: int) -> str:
        """Return file and number."""
        file_name, number = self._of[index]
        return f"{file_name}[{number}]"

    def identity(self) -> str:
        """Return a digest of names, sizes and times."""
        return stamps(self._root / name for name, _ in self._files)


class MdsFolder(Chunks):
    """A folder that MosaicML Streaming's `MDSWriter` wrote, not compressed."""

    kind = "MDS"

    def __init__(self, root: Path, how: Settings | None = None) -> None:
        shards = _index(root)["shards"]
        if any(shard["format"] != "mds" or shard.get("compression") for shard in shards):
            raise PackError(f"{root} is compressed, or no MDS: write it without compression=")
        first = shards[0]
        names = ("column_names", "column_encodings", "column_sizes")
        entries = list(zip(*(first[name] for name in names), strict=True))
        columns = [_mds_column(root, *entry) for entry in entries]
        files = [(shard["raw_data"]["basename"], shard["samples"]) for shard in shards]
        super().__init__(root, files, columns, how)


class LitDataFolder(Chunks):
    """A folder that LitData's `optimize` wrote, not compressed and not encrypted."""

    kind = "LitData"

    def __init__(self, root: Path, how: Settings | None = None) -> None:
        index = _index(root)
        config = index["config"]
        if config.get("compression") or config.get("encryption"):
            raise PackError(f"{root} is compressed or encrypted: {_TO_DATASET}")
        if config.get("item_loader") not in {None, "PyTreeLoader"}:
            raise PackError(f"{root} is read by {config['item_loader']}: {_TO_DATASET}")
        names = _leaves(json.loads(config["data_spec"])[1], "")
        columns = [
            _lit_column(root, name or "value", format_name)
            for name, format_name in zip(names, config["data_format"], strict=True)
        ]
        files = [(chunk["filename"], chunk["chunk_size"]) for chunk in index["chunks"]]
        super().__init__(root, files, columns, how)


def chunks_in(root: Path, how: Settings | None = None) -> Chunks | None:
    """Open a folder whose `index.json` is one of MDS or LitData; None of any other."""
    if not (root / "index.json").exists():
        return None
    index = _index(root)
    if "shards" in index:
        return MdsFolder(root, how)
    return LitDataFolder(root, how) if "chunks" in index else None


def _index(root: Path) -> dict[str, Any]:
    try:
        found: dict[str, object] = json.loads((root / "index.json").read_bytes())
    except ValueError as error:
        raise PackError(f"{root / 'index.json'} is not JSON: {error}") from None
    return found if isinstance(found, dict) else {}


def _mds_column(root: Path, name: str, encoding: str, size: int | None) -> Column:
    head, _, rest = encoding.partition(":")
    number = {"int": "i8"}.get(head) or (f"{head}" if head[:3] in {"int", "uin", "flo"} else "")
    if number:
        return Column(name, size, _scalar(number), Kind("number"))
    if head == "ndarray":
        dtype, _, shape = rest.partition(":")
        sides = tuple(map(int, shape.split(","))) if shape else None
        return Column(name, size, _mds_array(dtype, sides))
    if head not in _SIMPLE:
        raise PackError(
            f"the column {name} of {root} is kept as {encoding}, which is not read: {_TO_DATASET}"
        )
    return Column(name, size, *_SIMPLE[head])


def _mds_array(dtype: str, shape: tuple[int, ...] | None) -> Decode:
    numpy = need("numpy")

    def decode(data: bytes) -> object:
        at, kind, sides = 0, dtype, shape
        if not kind:
            kind, at = _MDS_ARRAYS[data[0]], 1
        if sides is None:
            rank, width = data[at] >> 2, 2 ** (data[at] % 4)
            sides = tuple(numpy.frombuffer(data, f"<u{width}", rank, at + 1).tolist())
            at += 1 + rank * width
        return numpy.frombuffer(data[at:], kind).reshape(sides)

    return decode


def _lit_column(root: Path, name: str, format_name: str) -> Column:
    head, _, rest = format_name.partition(":")
    if head in {"no_header_numpy", "no_header_tensor"}:
        dtype = (_NUMPY if head == "no_header_numpy" else _TORCH)[int(rest)]
        return Column(name, None, lambda data: need("numpy").frombuffer(data, dtype))
    if head in {"numpy", "tensor"}:
        return Column(name, None, _lit_array(head))
    simple = _SIMPLE | {
        "int": (_scalar("<i8"), Kind("number")),
        "float": (_scalar("<f8"), Kind("number")),
        "bool": (lambda data: data != b"\x00", Kind("number")),
    }
    if head not in simple:
        raise PackError(
            f"the value {name} of {root} is kept as {format_name}, which is not read: {_TO_DATASET}"
        )
    return Column(name, None, *simple[head])


def _lit_array(head: str) -> Decode:
    numpy = need("numpy")
    order, dtypes = ("<", _NUMPY) if head == "numpy" else (">", _TORCH)

    def decode(data: bytes) -> object:
        which, rank = struct.unpack_from(f"{order}II", data)
        shape = struct.unpack_from(f"{order}{rank}I", data, 8)
        return numpy.frombuffer(data[8 + 4 * rank :], dtypes[which]).reshape(shape)

    return decode


def _scalar(dtype: str) -> Decode:
    return lambda data: need("numpy").frombuffer(data, dtype)[0].item()


def _pil(data: bytes) -> object:
    """Return the pixels of a PIL image that was kept raw: width, height, mode, pixels."""
    width, height, size = struct.unpack_from("<III", data)
    mode = data[12 : 12 + size].decode()
    image = need("PIL.Image").frombytes(mode, (width, height), data[12 + size :])
    return need("numpy").asarray(image)


_SIMPLE: dict[str, tuple[Decode, Kind | None]] = {
    "str": (bytes.decode, Kind("text")),
    "string": (bytes.decode, Kind("text")),
    "text": (bytes.decode, Kind("text")),
    "bytes": (bytes, None),
    "file": (bytes, None),
    "json": (json.loads, Kind("json")),
    "jpeg": (bytes, Kind("image")),
    "png": (bytes, Kind("image")),
    "image": (bytes, Kind("image")),
    "pil": (_pil, None),
    "str_int": (int, Kind("number")),
    "str_float": (float, Kind("number")),
    "str_decimal": (bytes.decode, Kind("text")),
}


def _leaves(spec: dict[str, Any], path: str) -> list[str]:
    """Return the names of the leaves of a `torch.utils._pytree` specification."""
    if spec["type"] is None:
        return [path]
    children = spec["children_spec"]
    keys = range(len(children))
    if spec["type"].endswith("dict") and spec["context"]:
        keys = json.loads(spec["context"])
    found = []
    for key, child in zip(keys, children, strict=True):
        found += _leaves(child, f"{path}.{key}" if path else str(key))
    return found
