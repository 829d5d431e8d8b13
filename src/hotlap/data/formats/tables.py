"""Arrow, mapped and read by row as Hugging Face datasets do, and Parquet."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hotlap.common.extras import need
from hotlap.data.formats.base import Format, Read, in_order

if TYPE_CHECKING:
    import pyarrow

ROW_GROUP = 100


def _table(payloads: Sequence[bytes]) -> "pyarrow.Table":
    pyarrow = need("pyarrow")
    return pyarrow.table({"x": pyarrow.array(payloads, pyarrow.large_binary())})


def _arrow_write(payloads: Sequence[bytes], path: Path) -> None:
    table = _table(payloads)
    with need("pyarrow.ipc").new_file(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=ROW_GROUP)


def _arrow_open(path: Path) -> Read:
    mapped = need("pyarrow").memory_map(str(path))
    column = need("pyarrow.ipc").open_file(mapped).read_all().column("x")
    return lambda index: column[index].as_py()


def _parquet_write(payloads: Sequence[bytes], path: Path) -> None:
    need("pyarrow.parquet").write_table(_table(payloads), path, row_group_size=ROW_GROUP)


def _parquet_open(path: Path) -> Read:
    """Rows have no place of their own in a row group: it is read and unpacked as a whole."""

    def begin() -> Iterator[object]:
        for batch in need("pyarrow.parquet").ParquetFile(path).iter_batches(ROW_GROUP):
            for entry in batch.column(0):
                yield entry.as_py()

    return in_order(begin)


ARROW = Format("Arrow, mapped", ("pyarrow",), _arrow_write, _arrow_open)
PARQUET = Format("Parquet", ("pyarrow",), _parquet_write, _parquet_open, in_order=True)
