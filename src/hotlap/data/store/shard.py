"""Write one shard, and a sidecar about it that appears only when the shard is whole."""

import io
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from hotlap.data.errors import PackError
from hotlap.data.extras import need
from hotlap.data.store import check
from hotlap.data.store.files import room, write_whole

BUFFER = 4 << 20  # large writes lie in larger pieces of the page cache, which are read faster


def file_name(index: int) -> str:
    """Return a shard's file name."""
    return f"shard-{index:05d}.bin"


@dataclass
class Written:
    """What a shard holds: arrays by table name, without the payload."""

    tables: dict[str, Any]
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


class ShardWriter:
    """Appends payloads to one shard; a context manager.

    On a clean exit the shard is brought to the disk and its sidecar written; after an error neither
    counts, and a later packing begins the shard anew.
    """

    def __init__(self, folder: Path, index: int) -> None:
        self._path = folder / file_name(index)
        self._lengths: list[int] = []
        self._checks: list[int] = []
        self._names: list[bytes] = []
        self._fields: dict[str, list[Any]] = {}
        self._row: tuple[str, tuple[int, ...]] | None = None
        self.skipped: list[tuple[str, str]] = []

    def __enter__(self) -> "ShardWriter":
        with room(self._path):
            self._file = self._path.open("wb", buffering=BUFFER)
        return self

    def add(self, payload: Any, name: str, fields: Mapping[str, Any]) -> None:
        """Append one sample: bytes, or an array (all of one shape and dtype)."""
        if hasattr(payload, "dtype"):
            payload = self._flat(payload, name)
        with room(self._path):
            self._file.write(payload)
        self._lengths.append(len(payload))
        self._checks.append(check.of(payload))
        self._names.append(name.encode("utf-8", "surrogateescape"))
        self._add_fields(fields, name)

    def _flat(self, array: Any, name: str) -> Any:
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

    def _add_fields(self, fields: Mapping[str, Any], name: str) -> None:
        if len(self._lengths) == 1:
            self._fields = {key: [] for key in fields}
        if fields.keys() != self._fields.keys():
            raise PackError(
                f"{name} has the fields {sorted(fields)}, the samples before it "
                f"{sorted(self._fields)}: every sample needs the same"
            )
        for key, value in fields.items():
            self._fields[key].append(value)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if error is not None:
            with suppress(OSError):  # a full disk fails again on closing
                self._file.close()
            self._path.unlink(missing_ok=True)
            return
        with room(self._path):
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
        _save(self._path, self._written())

    def _written(self) -> Written:
        numpy = need("numpy")
        names = b"".join(self._names)
        tables = {
            "length": numpy.array(self._lengths, "<i8"),
            "check": numpy.array(self._checks, "<u8"),
            "names": numpy.frombuffer(names, "|u1"),
            "name_end": numpy.cumsum([len(name) for name in self._names], dtype="<i8"),
        }
        tables |= {f"field.{key}": _column(key, values) for key, values in self._fields.items()}
        return Written(tables, self._row, self.skipped)


def _column(key: str, values: list[Any]) -> Any:
    column = need("numpy").asarray(values)
    if column.dtype.kind not in "biuf":
        raise PackError(f"the field {key} is {column.dtype}: fields are numbers of a fixed shape")
    return column.astype(column.dtype.newbyteorder("<"), copy=False)


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
    if not shard.exists() or shard.stat().st_size != written.bytes:
        return None
    return written


def drop_sidecars(folder: Path) -> None:
    """Remove the sidecars, when the tables have been written."""
    for path in folder.glob("shard-*.side.npz"):
        path.unlink()


def _sidecar(shard: Path) -> Path:
    return shard.with_suffix(".side.npz")
