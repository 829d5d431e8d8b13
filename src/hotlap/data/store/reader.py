"""Read a store: nothing is handed out whose checksum does not agree."""

import os
from collections.abc import Callable
from pathlib import Path

from hotlap.common.extras import Array, ByteArray, IntArray, need
from hotlap.data.errors import StoreError
from hotlap.data.store import check, manifest, values
from hotlap.data.store.manifest import Table
from hotlap.data.store.mapped import Mapped
from hotlap.data.store.record_index import Indices, RecordIndex

Progress = Callable[[int], None]


class Store:
    """A packed dataset, open for reading.

    Opening checks the manifest, the tables and every shard's size. A payload's checksum is
    compared when it is read; rows (profile raw) are compared on their first read in this process,
    and trusted after it. A shard cut short under a running training is an error rather than a bus
    error, and memory does not grow with what was read: reads go through `pread`, but for rows that
    the kernel holds in memory, of which some stay mapped (see `Mapped`). A store may be shared by
    threads, forked and pickled.

    Args:
        path: the folder that `hotlap pack` wrote.

    Raises:
        StoreError: not a store, half packed, truncated, altered, or of another version.
    """

    def __init__(self, path: str | Path) -> None:
        self._np = need("numpy")
        self.path = Path(path)
        self.manifest, self.digest = manifest.read(self.path)
        for shard in self.manifest.shards:
            self._must_have(shard.file, shard.bytes)
        self._index = RecordIndex(self.path, self.manifest.shards, self._table("length"))
        self._mapped = Mapped(self._index)
        self._checks = self._table("check")
        self.fields = {
            name.removeprefix("field."): self._table(name)
            for name in self.manifest.tables
            if name.startswith("field.")
        }
        self.columns = dict(self.manifest.columns)
        self._open_columns()
        self._table("names")  # compared, and not kept: names stay on the disk
        self._table("name_end")
        self._trusted = self._np.zeros(len(self), bool)
        self._unread = True
        self._name_end: IntArray | None = None

    def __len__(self) -> int:
        return self.manifest.count

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r}: {len(self)} samples, {self.profile})"

    def __reduce__(self) -> tuple[type["Store"], tuple[Path]]:
        return Store, (self.path,)

    @property
    def profile(self) -> str:
        """How payloads are kept: jpeg, jpeg256, raw or tokens."""
        return self.manifest.profile

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes; empty when the source had none."""
        return self.manifest.classes

    @property
    def row(self) -> manifest.Row:
        """Shape and dtype of each row.

        Raises:
            StoreError: payloads are encoded images, which have none.
        """
        if self.manifest.row is None:
            raise StoreError(f"{self.path} holds encoded images: rows have no common shape")
        return self.manifest.row

    def payload(self, index: int) -> bytes:
        """Return the bytes of one sample, checked."""
        handle, at, length = self._index.one(index)
        data = os.pread(handle, length, at)
        self._compare(index, data)
        return data

    def value(self, index: int, name: str) -> object:
        """Return one field of one sample, checked.

        Returns:
            A number or an array; of a column of variable length a str, bytes, array, what the
            JSON held, or None where the source had no value.

        Raises:
            KeyError: there is no such field.
        """
        if name in self.columns:
            return self._values(index)[name]
        if name not in self.fields:
            raise KeyError(f"{self.path} has no field {name!r}, only {self.field_names}")
        return self.fields[name][index]

    def sample(self, index: int) -> dict[str, object]:
        """Return all fields of one sample by name; with `data`, its payload, where it has one."""
        found: dict[str, object] = {}
        if self.profile != "records":
            data = self.payload(index)
            row = self.manifest.row
            found["data"] = (
                data if row is None else self._np.frombuffer(data, row.dtype).reshape(row.shape)
            )
        found |= {name: table[index] for name, table in self.fields.items()}
        return found | (self._values(index) if self.columns else {})

    @property
    def field_names(self) -> list[str]:
        """Names of all fields: those of a fixed shape, then those of variable length."""
        return [*self.fields, *self.columns]

    def is_uniform(self, name: str) -> bool:
        """Whether a field is a number, or an array of the same size in all samples."""
        if name not in self.columns:
            return True
        lengths = self._parts[:, list(self.columns).index(name)]
        return self.columns[name] == "array" and bool((lengths == lengths[:1]).all())

    def _open_columns(self) -> None:
        if not self.columns:
            return
        parts = [self._table(f"part.{name}") for name in self.columns]
        self._parts = self._np.stack(parts, axis=1)
        for shard in self.manifest.extra:
            self._must_have(shard.file, shard.bytes)
        lengths = self._parts.clip(0).sum(axis=1)
        self._extra = RecordIndex(self.path, self.manifest.extra, lengths)
        self._extra_checks = self._table("extra_check")

    def _values(self, index: int) -> dict[str, object]:
        """Return the values of variable length of one sample."""
        handle, at, length = self._extra.one(index)
        data = os.pread(handle, length, at)
        if len(data) != length:
            raise StoreError(self._cut(index))
        if check.of(data) != int(self._extra_checks[index]):
            raise StoreError(self._altered(index))
        found: dict[str, object] = {}
        start = 0
        for (name, kind), size in zip(
            self.columns.items(), self._parts[index].tolist(), strict=True
        ):
            found[name] = None
            if size != values.ABSENT:
                found[name] = values.decode(kind, data[start : start + size])
                start += size
        return found

    def rows_into(self, indices: Indices, out: ByteArray) -> None:
        """Read the rows of some indices, a sequence or an array, into `out`.

        Args:
            indices: integers.
            out: a C-contiguous uint8 array (len(indices), bytes of a row).
        """
        fresh = (~self._trusted[indices]).nonzero()[0].tolist() if self._unread else ()
        if not self._mapped.copy(indices, out):
            self._pread(indices, out)
        for which in fresh:
            self._compare(int(indices[which]), out[which])
        if fresh:
            self._trusted[indices] = True
            self._unread = not self._trusted.all()

    def _pread(self, indices: Indices, out: ByteArray) -> None:
        places = self._index.many(indices)
        for target, (handle, at, length), index in zip(out, places, indices, strict=True):
            if os.preadv(handle, [target], at) != length:
                raise StoreError(self._cut(index))

    def read(self, index: int, start: int, length: int) -> bytes:
        """Return a part of one payload, which is checked as a whole on its first read."""
        handle, at, whole = self._index.one(index)
        if not self._trusted[index]:
            self._compare(index, os.pread(handle, whole, at))
            self._trusted[index] = True
        data = os.pread(handle, length, at + start)
        if len(data) != length:
            raise StoreError(self._cut(index))
        return data

    def advise(self, indices: Indices) -> None:
        """Tell the kernel what is read soon: random reads then come at the sequential rate.

        Nothing is requested for samples that are in memory, as a few of them show.
        """
        self._index.advise(indices)

    def length(self, index: int) -> int:
        """Bytes of one payload."""
        return self._index.length(index)

    def name(self, index: int) -> str:
        """Return where a sample came from: its path in the source."""
        ends = self._name_end = (
            self._table("name_end") if self._name_end is None else self._name_end
        )
        start = int(ends[index - 1]) if index else 0
        with (self.path / self.manifest.tables["names"].file).open("rb") as file:
            file.seek(start)
            return file.read(int(ends[index]) - start).decode("utf-8", "replace")

    def table(self, name: str) -> Array:
        """Return one table as an array, checked."""
        return self._table(name)

    def verify(self, progress: Progress | None = None) -> list[str]:
        """Compare every payload and table; return what is wrong, empty when all is well."""
        wrong = []
        for name in self.manifest.tables:
            try:
                self._table(name)
            except StoreError as error:
                wrong.append(str(error))
        for index in range(len(self)):
            try:
                self.payload(index)
                if self.columns:
                    self._values(index)
            except StoreError as error:
                wrong.append(str(error))
            if progress:
                progress(self.length(index))
        return wrong

    def _compare(self, index: int, data: bytes | ByteArray) -> None:
        if len(data) != self.length(index):
            raise StoreError(self._cut(index))
        if check.of(data) != int(self._checks[index]):
            raise StoreError(self._altered(index))

    def _altered(self, index: int) -> str:
        return (
            f"sample {index} ({self._origin(index)}) of {self.path} was altered after packing: "
            "its checksum differs"
        )

    def _cut(self, index: int) -> str:
        return f"sample {index} ({self._origin(index)}) of {self.path} is cut short: pack again"

    def _origin(self, index: int) -> str:
        try:
            return self.name(index)
        except StoreError:
            return "its name is lost too"

    def _table(self, name: str) -> Array:
        about = self.manifest.tables.get(name)
        if about is None:
            raise StoreError(f"{self.path} has no table {name!r}")
        dtype = self._np.dtype(about.dtype)
        self._must_have(about.file, dtype.itemsize * _entries(about))
        data = (self.path / about.file).read_bytes()
        if check.text(data) != about.check:
            raise StoreError(
                f"{self.path / about.file} was altered after packing: its checksum differs; "
                "pack again"
            )
        table: Array = self._np.frombuffer(data, dtype).reshape(about.shape)
        return table

    def _must_have(self, file: str, size: int) -> None:
        path = self.path / file
        try:
            held = path.stat().st_size
        except OSError as error:
            raise StoreError(f"{path} is missing ({error.strerror}): pack again") from None
        if held != size:
            raise StoreError(f"{path} has {held} bytes, packed were {size}: pack or copy it again")


def _entries(about: Table) -> int:
    entries = 1
    for size in about.shape:
        entries *= size
    return entries
