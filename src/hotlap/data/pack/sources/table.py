"""Arrow, Parquet and Hugging Face tables."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hotlap.data.errors import PackError
from hotlap.data.extras import need
from hotlap.data.pack.sources.base import Plain, Sample, stamps
from hotlap.data.store.files import room

_SPOOL = "table.arrow"
_LABELS = {"label", "labels", "cls", "fine_label", "target", "targets"}


class TableFiles(Plain):
    """Rows of Arrow or Parquet files; Hugging Face's `save_to_disk` folders among them.

    The first column of encoded images (bytes, or a struct with `bytes`) is the data, else the
    first column of number lists. Number columns are fields; `label`, `cls` and the like the label.
    Parquet has no access by row, so it is rewritten as Arrow beside the store while packing.

    Args:
        paths: the files, all with the same columns.
        names: of the classes.

    """

    kind = "table"

    def __init__(self, paths: Sequence[Path], names: Sequence[str] = ()) -> None:
        self._paths = list(paths)
        self.classes = tuple(names)
        self._spool: Path | None = None
        self._open: tuple[int, Any] = (0, None)
        self._schema = _schema(self._paths[0])
        self._main = _main(self._schema)
        self._length = sum(_rows(path) for path in self._paths)
        if not self._length:
            raise PackError(f"there are no rows in {self._paths[0]}")

    @classmethod
    def folder(cls, path: Path) -> "TableFiles":
        """Open a folder of tables, such as `Dataset.save_to_disk` or a hub download leaves."""
        if (path / "dataset_dict.json").exists():
            raise PackError(f"{path} holds several splits: name one, such as {path / 'train'}")
        files = sorted(path.glob("*.arrow")) or sorted(path.glob("*.parquet"))
        return cls(files, _class_names(path))

    def __len__(self) -> int:
        return self._length

    def prepare(self, folder: Path) -> None:
        """Rewrite Parquet as Arrow."""
        if self._paths[0].suffix == ".parquet":
            self._spool = folder / _SPOOL
            if not self._spool.exists():
                _rewrite(self._paths, self._spool)

    def read(self, index: int) -> Sample:
        """Read one row."""
        table = self._table()
        row = {name: table.column(name)[index].as_py() for name in table.column_names}
        value = row.pop(self._main)
        if isinstance(value, dict):
            value = value["bytes"]
        if value is None:
            raise ValueError("the row has no data in it (images kept as paths are not followed)")
        if isinstance(value, list):
            value = self._array(value)
        fields = {_field(k): v for k, v in row.items() if isinstance(v, int | float)}
        return Sample(value, self.name(index), fields)

    def name(self, index: int) -> str:
        """Return file and row."""
        return f"{self._paths[0].parent.name}/row {index}"

    def identity(self) -> str:
        """Return a digest of names, sizes and times."""
        return stamps(self._paths)

    def _array(self, value: list[Any]) -> Any:
        kind = self._schema.field(self._main).type
        while hasattr(kind, "value_type"):
            kind = kind.value_type
        return need("numpy").asarray(value, kind.to_pandas_dtype())

    def _table(self) -> Any:
        """Open the files, anew in each process."""
        if self._open[0] != os.getpid():
            paths = [self._spool] if self._spool else self._paths
            tables = [_arrow(path).read_all() for path in paths]
            self._open = (os.getpid(), need("pyarrow").concat_tables(tables))
        return self._open[1]


def _arrow(path: Path) -> Any:
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


def _parquet(path: Path) -> Any:
    try:
        return need("pyarrow.parquet").ParquetFile(path)
    except need("pyarrow").ArrowInvalid as error:
        raise PackError(f"{path} is not a Parquet file: {error}") from None


def _schema(path: Path) -> Any:
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


def _main(schema: Any) -> str:
    types = need("pyarrow").types
    for column in schema:
        kind = column.type
        if types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
            return str(column.name)
        if types.is_binary(kind) or types.is_large_binary(kind):
            return str(column.name)
    for column in schema:
        if types.is_list(column.type) or types.is_fixed_size_list(column.type):
            return str(column.name)
    raise PackError(f"no column of images or number lists among {schema.names}")


def _field(name: str) -> str:
    return "label" if name in _LABELS else name


def _class_names(folder: Path) -> list[str]:
    try:
        features = json.loads((folder / "dataset_info.json").read_text())["features"]
    except (OSError, ValueError, KeyError):
        return []
    labels = (features[name] for name in features if name in _LABELS)
    return next((list(label["names"]) for label in labels if "names" in label), [])
