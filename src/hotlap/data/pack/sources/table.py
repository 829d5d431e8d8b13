"""Arrow, Parquet and Hugging Face tables."""

import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hotlap.common.extras import need
from hotlap.data.errors import PackError
from hotlap.data.pack.settings import Settings
from hotlap.data.pack.sources.base import PerProcess, looks_like_image, read_file, stamps
from hotlap.data.pack.sources.records import Kind, Records
from hotlap.data.store.files import room

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet

_SPOOL = "table.arrow"
_SPLIT = re.compile(r"(.+?)-\d+-of-\d+")


class TableFiles(Records):
    """Rows of Arrow or Parquet files; Hugging Face's `save_to_disk` folders among them.

    The first column of encoded images (bytes, or a struct with `bytes`) is the data, else the
    largest column of number lists of one length. All other columns are fields. Parquet has no
    access by row, so it is rewritten as Arrow beside the store while packing.

    Args:
        paths: the files, all with the same columns.
        names: of the classes of each column that has some.
        how: what to leave out, which column is the label.

    Raises:
        PackError: no rows, columns that differ, or one of a type that a store cannot keep.
    """

    kind = "table"

    def __init__(
        self,
        paths: Sequence[Path],
        names: dict[str, list[str]] | None = None,
        how: Settings | None = None,
    ) -> None:
        super().__init__(paths[0].name if len(paths) == 1 else paths[0].parent.name, how)
        self._paths = list(paths)
        self._spool: Path | None = None
        self._schema = _schema(self._paths[0])
        for path in self._paths[1:]:
            if not _schema(path).equals(self._schema):
                raise PackError(f"{path} has other columns than {self._paths[0]}")
        self._length = sum(_rows(path) for path in self._paths)
        self._table = PerProcess(self._opened)
        if not self._length:
            raise PackError(f"there are no rows in {self._paths[0]}")
        self.settle(self._kinds(), names)

    @classmethod
    def folder(cls, path: Path, how: Settings | None = None) -> "TableFiles":
        """Open a folder of tables, such as `Dataset.save_to_disk` or a hub download leaves."""
        if (path / "dataset_dict.json").exists():
            if how and how.split:
                return cls.folder(path / how.split, how)
            raise PackError(
                f"{path} holds several splits: name one, such as {path / 'train'}, or --split train"
            )
        return cls(_files(path, how.split if how else None), _class_names(path), how)

    def __len__(self) -> int:
        return self._length

    def prepare(self, folder: Path) -> None:
        """Rewrite Parquet as Arrow."""
        if self._paths[0].suffix == ".parquet":
            self._spool = folder / _SPOOL
            if not self._spool.exists():
                _rewrite(self._paths, self._spool)

    def record(self, index: int) -> dict[str, object]:
        """Read one row."""
        table = self._table()
        return {
            name: value
            for column in self._schema
            for name, value in self._values(column, table.column(column.name)[index])
        }

    def distinct(self, name: str) -> set[object]:
        """Return the values of a column."""
        found: set[object] = set()
        for batch in self._batches([name]):
            found.update(batch.column(0).unique().to_pylist())
        return found

    def name(self, index: int) -> str:
        """Return file and row."""
        return f"{self._paths[0].parent.name}/row {index}"

    def identity(self) -> str:
        """Return a digest of names, sizes and times."""
        return stamps(self._paths)

    def _opened(self) -> "pyarrow.Table":
        paths = [self._spool] if self._spool else self._paths
        return need("pyarrow").concat_tables([_arrow(path).read_all() for path in paths])

    def _batches(self, columns: list[str]) -> Iterator["pyarrow.RecordBatch"]:
        for path in self._paths:
            if path.suffix == ".parquet":
                yield from _parquet(path).iter_batches(1024, columns=columns)
            else:
                yield from _arrow(path).read_all().select(columns).to_batches()

    def _kinds(self) -> dict[str, Kind]:
        """Return the kind of each column, from its type and a look at its values."""
        kinds = {}
        for column in self._schema:
            if column.name in self.how.drop:
                kinds[column.name] = Kind("bytes")
                continue
            kinds[column.name] = self._kind(column)
            if _is_file(column.type) and any(
                (entry or {}).get("path")
                for batch in self._batches([column.name])
                for entry in batch.column(0).to_pylist()
            ):
                kinds[f"{column.name}.path"] = Kind("text")
        return kinds

    def _kind(self, column: "pyarrow.Field") -> Kind:
        types, kind = need("pyarrow").types, column.type
        if types.is_dictionary(kind):
            kind = kind.value_type
        if _is_file(kind) or _is_bytes(kind):
            return Kind("image" if self._begins_with_image(column.name) else "bytes")
        if types.is_string(kind) or types.is_large_string(kind) or _is_time(kind):
            return Kind("text")
        if _is_number(kind):
            gaps = any(batch.column(0).null_count for batch in self._batches([column.name]))
            return Kind("json" if gaps else "number")
        if _leaf(kind) is not None:
            return self._kind_of_lists(column)
        if _fits_json(kind):
            return Kind("json")
        raise PackError(
            f"the column {column.name} of {self.where} is of type {kind}, which a store cannot "
            f"keep: --drop {column.name}"
        )

    def _kind_of_lists(self, column: "pyarrow.Field") -> Kind:
        """Return row where all lists are of one shape, array where each has one, else json."""
        shapes = set()
        for batch in self._batches([column.name]):
            shapes |= _shapes(batch.column(0))
        if None in shapes:
            return Kind("json")
        if len(shapes) == 1:
            sides = next(iter(shapes)) or ()
            return Kind("row", need("numpy").dtype(_leaf(column.type)).itemsize * math.prod(sides))
        return Kind("array")

    def _begins_with_image(self, name: str) -> bool:
        """Whether the first value there is an image, or lies in a file that the row names."""
        for batch in self._batches([name]):
            for entry in batch.column(0):
                value = entry.as_py()
                if isinstance(value, dict):  # without bytes, the path is of an image's file
                    value = value["bytes"] or (value.get("path") and b"\xff\xd8\xff")
                if value is not None:
                    return looks_like_image(value)
        return False

    def _values(
        self, column: "pyarrow.Field", entry: "pyarrow.Scalar"
    ) -> Iterator[tuple[str, object]]:
        if _is_time(column.type):
            entry = entry.cast(need("pyarrow").string())
        value = entry.as_py()
        if _is_file(column.type):
            path = value.get("path") if value else None
            yield f"{column.name}.path", path
            value = value["bytes"] if value else None
            if value is None and path and column.name == self.main:
                value = self._linked(path)
        elif isinstance(value, list) and _leaf(column.type) is not None:
            value = _as_array(value, _leaf(column.type))
        yield column.name, value

    def _linked(self, path: str) -> bytes:
        """Read an image that the row names: beside the table, or where the path says."""
        beside = self._paths[0].parent / path
        return read_file(beside if beside.exists() else path)


def _files(path: Path, split: str | None) -> list[Path]:
    """Return the tables of a folder.

    Raises:
        PackError: they are of two kinds, or of several splits.
    """
    if (path / "state.json").exists():  # `save_to_disk`; caches of `map` may lie beside
        entries = json.loads((path / "state.json").read_text()).get("_data_files") or []
        if entries:
            return [path / entry["filename"] for entry in entries]
    files = sorted([*path.glob("*.arrow"), *path.glob("*.parquet")])
    if len({file.suffix for file in files}) > 1:
        raise PackError(f"{path} holds .arrow and .parquet files: name one of them")
    splits = {found[1] if (found := _SPLIT.match(file.stem)) else "" for file in files}
    if split is not None:
        files = [file for file in files if file.stem.startswith(split)]
        if not files:
            raise PackError(f"--split {split}: {path} has {', '.join(sorted(splits))}")
    elif len(splits) > 1:
        named = ", ".join(sorted(filter(None, splits)))
        raise PackError(f"{path} holds several splits ({named}): name one, such as --split train")
    return files


def _arrow(path: Path) -> "pyarrow.RecordBatchFileReader | pyarrow.RecordBatchStreamReader":
    pyarrow = need("pyarrow")
    ipc = need("pyarrow.ipc")
    try:
        return ipc.open_file(pyarrow.memory_map(str(path)))
    except pyarrow.ArrowInvalid:
        pass
    try:
        return ipc.open_stream(pyarrow.memory_map(str(path)))
    except pyarrow.ArrowInvalid as error:
        raise PackError(f"{path} is not an Arrow file: {error}") from None


def _parquet(path: Path) -> "pyarrow.parquet.ParquetFile":
    try:
        return need("pyarrow.parquet").ParquetFile(path)
    except need("pyarrow").ArrowInvalid as error:
        raise PackError(f"{path} is not a Parquet file: {error}") from None


def _schema(path: Path) -> "pyarrow.Schema":
    return _parquet(path).schema_arrow if path.suffix == ".parquet" else _arrow(path).schema


def _rows(path: Path) -> int:
    if path.suffix == ".parquet":
        return int(_parquet(path).metadata.num_rows)
    return int(_arrow(path).read_all().num_rows)


def _rewrite(paths: Sequence[Path], spool: Path) -> None:
    ipc = need("pyarrow.ipc")
    passing = spool.with_suffix(".tmp")
    with room(spool):
        with ipc.new_file(str(passing), _schema(paths[0])) as writer:
            for path in paths:
                for batch in _parquet(path).iter_batches(1024):
                    writer.write_batch(batch)
        passing.rename(spool)


def _is_file(kind: "pyarrow.DataType") -> bool:
    """Whether it is Hugging Face's struct of bytes and path."""
    return bool(need("pyarrow").types.is_struct(kind) and kind.get_field_index("bytes") >= 0)


def _is_bytes(kind: "pyarrow.DataType") -> bool:
    types = need("pyarrow").types
    tests = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary)
    return any(test(kind) for test in tests)


def _is_number(kind: "pyarrow.DataType") -> bool:
    types = need("pyarrow").types
    return any(test(kind) for test in (types.is_integer, types.is_floating, types.is_boolean))


def _is_time(kind: "pyarrow.DataType") -> bool:
    types = need("pyarrow").types
    tests = (types.is_timestamp, types.is_date, types.is_time, types.is_decimal)
    return any(test(kind) for test in tests)


def _is_list(kind: "pyarrow.DataType") -> bool:
    types = need("pyarrow").types
    return any(
        test(kind) for test in (types.is_list, types.is_large_list, types.is_fixed_size_list)
    )


def _leaf(kind: "pyarrow.DataType") -> type | None:
    """Return the NumPy dtype of the numbers in a list, or in lists of lists; None of all else."""
    kind = getattr(kind, "storage_type", kind)
    if not _is_list(kind):
        return None
    while _is_list(kind):
        kind = kind.value_type
    return kind.to_pandas_dtype() if _is_number(kind) else None


def _fits_json(kind: "pyarrow.DataType") -> bool:
    types = need("pyarrow").types
    if types.is_struct(kind):
        return all(_fits_json(kind.field(at).type) for at in range(kind.num_fields))
    if _is_list(kind):
        return _fits_json(kind.value_type)
    text = types.is_string(kind) or types.is_large_string(kind)
    return bool(text or _is_number(kind) or types.is_null(kind))


def _shapes(column: "pyarrow.ChunkedArray") -> set[tuple[int, ...] | None]:
    """Return the shapes of a column's lists; None for one that is ragged, or has gaps."""
    numpy = need("numpy")
    found: set[tuple[int, ...] | None] = set()
    for entry in column:
        try:
            array = numpy.asarray(entry.as_py())
        except ValueError:
            return {None}
        found.add(array.shape if array.dtype.kind in "biuf" else None)
    return found


def _as_array(value: list[object], dtype: object) -> object:
    try:
        return need("numpy").asarray(value, dtype)
    except (TypeError, ValueError):  # ragged, or with gaps: kept as JSON
        return value


def _class_names(folder: Path) -> dict[str, list[str]]:
    try:
        features = json.loads((folder / "dataset_info.json").read_text())["features"]
    except (OSError, ValueError, KeyError):
        return {}
    return {name: list(about["names"]) for name, about in features.items() if "names" in about}
