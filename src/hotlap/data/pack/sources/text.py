"""CSV, TSV, JSON lines and plain text: tables of their own, and labels of images."""

# ruff: noqa: PTH118, PTH122 (os.path: a folder may hold millions of files)
import bz2
import csv
import gzip
import io
import json
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from hotlap.data.errors import PackError
from hotlap.data.pack.settings import Settings
from hotlap.data.pack.sources.base import IMAGES, read_file, stamps
from hotlap.data.pack.sources.records import Kind, Records, scanned

TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".txt")
_FOLDERS = ("", "images", "img", "imgs", "jpg", "data", "train")


class MissingFileError(PackError):
    """A table of images names a file that is not there."""


class TextRows(Records):
    """Rows of CSV, TSV, JSON-lines, JSON (a list of objects) or text files (a line a sample).

    CSV columns whose values are all whole numbers, or all numbers, are such; all others are text.
    """

    kind = "rows"

    def __init__(self, paths: Sequence[Path], how: Settings | None = None) -> None:
        super().__init__(", ".join(map(str, paths[:3])), how)
        self._paths = list(paths)
        self._rows = [row for path in paths for row in rows_of(path)]
        self.settle(scanned(self._rows))

    def __len__(self) -> int:
        return len(self._rows)

    def record(self, index: int) -> dict[str, object]:
        """Return one row."""
        return self._rows[index]

    def identity(self) -> str:
        """Return a digest of names, sizes and times."""
        return stamps(self._paths)


class LabelledImages(Records):
    """Images that a table names: every row is a sample, every column a field of it.

    The column with the files is found by trying: each of its values must be a file of the folder,
    or of `images/` and the like in it, with or without its ending.

    Args:
        root: the folder.
        table: CSV, TSV or JSON lines.
        how: which column is the label, what to leave out.

    Raises:
        PackError: no column names files, or a row names one that is missing.
    """

    kind = "images with a table"

    def __init__(self, root: Path, table: Path, how: Settings | None = None) -> None:
        super().__init__(f"{root} ({table.name})", how)
        self._root, self._table_path = root, table
        self._rows = rows_of(table)
        files = _files(root)
        self._column, places = _file_column(self._rows, files, table)
        self._paths = [places(str(row[self._column])) for row in self._rows]
        unnamed = sorted(set(files.values()) - set(self._paths))
        if unnamed:
            some = ", ".join(os.path.relpath(path, root) for path in unnamed[:3])
            self.left_out = (f"{len(unnamed)} images that {table.name} does not name: {some}",)
        kinds = scanned(self._rows)
        image = "image" if "image" not in kinds or self._column == "image" else "image file"
        self._image = image
        named = {k: v for k, v in kinds.items() if k != image}
        if image in kinds:
            named[f"{image}.path"] = kinds[image]
        self.settle({image: Kind("image")} | named)

    def __len__(self) -> int:
        return len(self._rows)

    def record(self, index: int) -> dict[str, object]:
        """Read the image of a row, and the row."""
        row = dict(self._rows[index])
        if self._image in row:
            row[f"{self._image}.path"] = row.pop(self._image)
        return {self._image: read_file(self._paths[index])} | row

    def distinct(self, name: str) -> set[object]:
        """Return the values of a column."""
        return {row.get(name) for row in self._rows}

    def name(self, index: int) -> str:
        """Return the path, relative to the folder."""
        return os.path.relpath(self._paths[index], self._root)

    def identity(self) -> str:
        """Return a digest of names, sizes and times of the table and the images."""
        return stamps([self._table_path, *map(Path, dict.fromkeys(self._paths))])


def table_in(root: Path) -> Path | None:
    """Return the table in a folder that names its images; None where there is none.

    Raises:
        PackError: there are several.
    """
    found = []
    files = _files(root)
    tables = (
        path for path in sorted(root.iterdir()) if path.suffix in TABLES[:4] and path.is_file()
    )
    for path in tables if files else ():
        try:
            _file_column(rows_of(path), files, path)
        except MissingFileError:
            raise
        except PackError:
            continue
        found.append(path)
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise PackError(f"{names} in {root} all name its images: choose one with --labels FILE")
    return found[0] if found else None


def rows_of(path: Path) -> list[dict[str, object]]:
    """Return the rows of a table.

    Raises:
        PackError: it is damaged, or is not a table.
    """
    data = _unpacked(path)
    ending = Path(path.name.removesuffix(".gz").removesuffix(".bz2")).suffix
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PackError(f"{path} is not UTF-8: {error}") from None
    if ending in {".csv", ".tsv"}:
        return _csv(text, path, "\t" if ending == ".tsv" else None)
    if ending == ".txt":
        return [{"text": line} for line in text.splitlines()]
    if ending == ".json":
        rows: object = load_json(data, str(path))
    else:
        lines = text.split("\n")
        rows = [
            load_json(line, f"{path}, line {n}") for n, line in enumerate(lines, 1) if line.strip()
        ]
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise PackError(f"{path} is no list of objects: write one object a line (.jsonl)")
    return rows


def load_json(data: bytes | str, where: str) -> object:
    """Parse JSON.

    Raises:
        PackError: it is damaged.
    """
    try:
        return json.loads(data)
    except ValueError as error:
        raise PackError(f"{where} is not JSON: {error}") from None


def _unpacked(path: Path) -> bytes:
    data = read_file(path)
    try:
        if path.suffix == ".gz":
            return gzip.decompress(data)
        return bz2.decompress(data) if path.suffix == ".bz2" else data
    except (OSError, EOFError) as error:
        raise PackError(f"{path} cannot be unpacked: {error}") from None


def _csv(text: str, path: Path, delimiter: str | None) -> list[dict[str, object]]:
    first = text.partition("\n")[0]
    delimiter = delimiter or max(",;\t", key=first.count)
    lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    lines = [line for line in lines if line]
    if not lines:
        raise PackError(f"{path} is empty")
    header, *rows = lines
    if len(set(header)) != len(header):
        raise PackError(f"{path} has two columns of one name in {header}: rename one")
    for number, row in enumerate(rows, 2):
        if len(row) != len(header):
            raise PackError(
                f"{path}, line {number} has {len(row)} values, the header {len(header)}"
            )
    columns = [_typed([row[at] for row in rows]) for at in range(len(header))]
    return [dict(zip(header, values, strict=True)) for values in zip(*columns, strict=True)]


def _typed(column: list[str]) -> list[object]:
    """Return a column as integers or floats where every value is written as one; "" is None."""
    filled = [value for value in column if value != ""]
    for read in (_integer, _float):
        try:
            found = {value: read(value) for value in set(filled)}
        except ValueError:
            continue
        return [found.get(value) for value in column]
    return [value if value != "" else None for value in column]


def _integer(value: str) -> int:
    number = int(value)
    if str(number) != value:  # 007 and 1_000 are names, not numbers
        raise ValueError(value)
    return number


def _float(value: str) -> float:
    if value.lstrip("+-").startswith("0") and value.lstrip("+-")[1:2].isdigit():
        raise ValueError(value)
    number = float(value)
    if "_" in value or not (math.isfinite(number) or value.lower().lstrip("+-") in {"nan", "inf"}):
        raise ValueError(value)
    return number


def _files(root: Path) -> dict[str, str]:
    """Return the images below a folder, by path relative to it."""
    found = {}
    for place, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for file in files:
            if os.path.splitext(file)[1].lower() in IMAGES and not file.startswith("."):
                path = os.path.join(place, file)
                found[os.path.relpath(path, root)] = path
    return found


def _file_column(
    rows: list[dict[str, object]], files: dict[str, str], table: Path
) -> tuple[str, Callable[[str], str]]:
    """Return the column that names the images, and what turns a value of it into a path."""
    without_ending = {os.path.splitext(name)[0]: path for name, path in reversed(files.items())}
    places = files | {name: path for name, path in without_ending.items() if name not in files}

    def find(value: str) -> str:
        for folder in _FOLDERS:
            found = places.get(os.path.normpath(os.path.join(folder, value)))
            if found is not None:
                return found
        raise KeyError(value)

    found: dict[str, set[str]] = {}
    for name in rows[0] if rows else ():
        values = {str(row.get(name)) for row in rows}
        found[name] = {find(value) for value in values if _has(find, value)}
    best = max(found, key=lambda name: len(found[name]), default="")
    if not best or len(found[best]) < len({str(row.get(best)) for row in rows}) / 2:
        raise PackError(f"{table}: no column names the images in {table.parent}")
    for row in rows:
        if not _has(find, str(row.get(best))):
            raise MissingFileError(
                f"{table}: the file {row.get(best)} (column {best}) does not exist"
            )
    return best, find


def _has(find: Callable[[str], str], value: str) -> bool:
    try:
        find(value)
    except KeyError:
        return False
    return True
