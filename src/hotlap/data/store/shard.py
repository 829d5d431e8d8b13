"""Write one shard, and a sidecar about it that appears only when the shard is whole."""

import io
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from hotlap.common.extras import Array, need
from hotlap.data.errors import PackError
from hotlap.data.store import check, values
from hotlap.data.store.files import room, write_whole

BUFFER = 4 << 20  # large writes lie in larger pieces of the page cache, which are read faster


def file_name(index: int) -> str:
    """Return a shard's file name."""
    return f"shard-{index:05d}.bin"


def extra_name(index: int) -> str:
    """Return the name of the file with a shard's values of variable length."""
    return f"shard-{index:05d}.extra.bin"


@dataclass
class Written:
    """What a shard holds: arrays by table name, without the payload."""

    tables: dict[str, Array]
    row: tuple[str, tuple[int, ...]] | None = None
    skipped: list[tuple[str, str]] = field(default_factory=list)

    @property
    def samples(self) -> int:
        """How many payloads."""
        return len(self.tables["length"])

    @property
    def bytes(self) -> int:
        """Bytes of payload."""
        return int(self.tables["length"].sum())

    @property
    def extra_bytes(self) -> int:
        """Bytes of values of variable length."""
        parts = (table for name, table in self.tables.items() if name.startswith("part."))
        return sum(int(table.clip(0).sum()) for table in parts)


class ShardWriter:
    """Appends payloads to one shard; a context manager.

    On a clean exit the shard is brought to the disk and its sidecar written; after an error neither
    counts, and a later packing begins the shard anew.
    """

    def __init__(self, folder: Path, index: int, columns: Mapping[str, str] | None = None) -> None:
        self._path = folder / file_name(index)
        self._extra_path = folder / extra_name(index)
        self._columns = columns or {}
        self._parts: list[list[int]] = []
        self._extra_checks: list[int] = []
        self._lengths: list[int] = []
        self._checks: list[int] = []
        self._names: list[bytes] = []
        self._fields: dict[str, list[object]] = {}
        self._row: tuple[str, tuple[int, ...]] | None = None
        self.skipped: list[tuple[str, str]] = []

    def __enter__(self) -> "ShardWriter":
        with room(self._path):
            self._file = self._path.open("wb", buffering=BUFFER)
            if self._columns:
                self._extra = self._extra_path.open("wb", buffering=BUFFER)
        return self

    def add(self, payload: bytes | Array, name: str, fields: Mapping[str, object]) -> None:
        """Append one sample: bytes, or an array (all of one shape and dtype); and its fields.

        Raises:
            SampleError: a field is not of the kind that its column has.
        """
        extra, lengths = values.joined(self._columns, fields)
        data = payload if isinstance(payload, bytes) else self._flat(payload, name)
        with room(self._path):
            self._file.write(data)
            if self._columns:
                self._extra.write(extra)
        self._lengths.append(len(data))
        self._checks.append(check.of(data))
        self._names.append(name.encode("utf-8", "surrogateescape"))
        if self._columns:
            self._parts.append(lengths)
            self._extra_checks.append(check.of(extra))
        self._add_fields({k: v for k, v in fields.items() if k not in self._columns}, name)

    def _flat(self, array: Array, name: str) -> memoryview:
        row = (array.dtype.newbyteorder("<").str, tuple(array.shape))
        if self._row is None:
            self._row = row
        if row != self._row:
            raise PackError(
                f"{name} is {row[0]} {row[1]}, the samples before it {self._row[0]} "
                f"{self._row[1]}: rows must be alike; for images give --resize"
            )
        little = need("numpy").ascontiguousarray(array.astype(row[0], copy=False))
        return memoryview(little.reshape(-1)).cast("B")

    def _add_fields(self, fields: Mapping[str, object], name: str) -> None:
        if len(self._lengths) == 1:
            self._fields = {key: [] for key in fields}
        if fields.keys() != self._fields.keys():
            raise PackError(
                f"{name} has the fields {sorted(fields)}, the samples before it "
                f"{sorted(self._fields)}: every sample needs the same"
            )
        for key, value in fields.items():
            self._fields[key].append(value)

    def _files(self) -> list[BinaryIO]:
        return [self._file, self._extra] if self._columns else [self._file]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if error is not None:
            with suppress(OSError):  # a full disk fails again on closing
                for file in self._files():
                    file.close()
            self._path.unlink(missing_ok=True)
            self._extra_path.unlink(missing_ok=True)
            return
        with room(self._path):
            for file in self._files():
                file.flush()
                os.fsync(file.fileno())
                file.close()
        _save(self._path, self._written())

    def _written(self) -> Written:
        numpy = need("numpy")
        names = b"".join(self._names)
        tables: dict[str, Array] = {
            "length": numpy.array(self._lengths, "<i8"),
            "check": numpy.array(self._checks, "<u8"),
            "names": numpy.frombuffer(names, "|u1"),
            "name_end": numpy.cumsum([len(name) for name in self._names], dtype="<i8"),
        }
        tables |= {f"field.{key}": _column(key, values) for key, values in self._fields.items()}
        if self._columns:
            parts = numpy.array(self._parts, "<i8").reshape(-1, len(self._columns))
            named = enumerate(self._columns)
            tables |= {f"part.{key}": numpy.ascontiguousarray(parts[:, at]) for at, key in named}
            tables["extra_check"] = numpy.array(self._extra_checks, "<u8")
        return Written(tables, self._row, self.skipped)


def _column(key: str, entries: list[object]) -> Array:
    try:
        column = need("numpy").asarray(entries)
    except ValueError:  # arrays of several shapes
        raise PackError(f"the field {key} has values of several shapes") from None
    if column.dtype.kind not in "biufc":
        raise PackError(f"the field {key} is {column.dtype}: fields are numbers of a fixed shape")
    if column.dtype.kind == "f" and any(_rounded(entry) for entry in entries):
        raise PackError(f"the field {key} mixes floats and integers above 2**53: some would change")
    little: Array = column.astype(column.dtype.newbyteorder("<"), copy=False)
    return little


def _rounded(entry: object) -> bool:
    """Whether a number would be another one as a float64."""
    return type(entry) is int and int(float(entry)) != entry


def _save(shard: Path, written: Written) -> None:
    about = json.dumps({"row": written.row, "skipped": written.skipped})
    buffer = io.BytesIO()
    need("numpy").savez(buffer, about=about, **written.tables)
    write_whole(_sidecar(shard), buffer.getvalue())


def load(folder: Path, index: int) -> Written | None:
    """Return what a finished shard holds; None when it is not there, or not whole."""
    shard = folder / file_name(index)
    try:
        with need("numpy").load(_sidecar(shard), allow_pickle=False) as saved:
            tables = {name: saved[name] for name in saved.files}
    except (OSError, ValueError, EOFError):
        return None
    about = json.loads(str(tables.pop("about")))
    row = (about["row"][0], tuple(about["row"][1])) if about["row"] else None
    written = Written(tables, row, [(name, why) for name, why in about["skipped"]])
    sizes = [(shard, written.bytes)]
    if "extra_check" in tables:
        sizes.append((folder / extra_name(index), written.extra_bytes))
    whole = all(path.exists() and path.stat().st_size == size for path, size in sizes)
    return written if whole else None


def drop_sidecars(folder: Path) -> None:
    """Remove the sidecars, when the tables have been written."""
    for path in folder.glob("shard-*.side.npz"):
        path.unlink()


def _sidecar(shard: Path) -> Path:
    return shard.with_suffix(".side.npz")
