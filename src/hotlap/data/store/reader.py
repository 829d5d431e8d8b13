"""Read a store: nothing is handed out whose checksum does not agree."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hotlap.data.errors import StoreError
from hotlap.data.extras import need
from hotlap.data.store import check, manifest
from hotlap.data.store.manifest import Table

Progress = Callable[[int], None]
PROBES = 8


class Store:
    """A packed dataset, open for reading.

    Opening checks the manifest, the tables and every shard's size. A payload's checksum is
    compared when it is read; rows (profile raw) are compared on their first read in this process,
    and trusted after it. Reads go through `pread`: a shard cut short under a running training is an
    error rather than a bus error, and memory does not grow with what was read. A store may be
    shared by threads, forked and pickled.

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
        lengths = self._table("length")
        self._checks = self._table("check")
        self._ends = self._np.cumsum(lengths)
        self._starts = self._ends - lengths
        held = [shard.bytes for shard in self.manifest.shards]
        self._shard_start = self._np.cumsum([0, *held])[:-1]
        samples = [shard.samples for shard in self.manifest.shards]
        self._sample_end = self._np.cumsum(samples)
        self.fields = {
            name.removeprefix("field."): self._table(name)
            for name in self.manifest.tables
            if name.startswith("field.")
        }
        self._handles: dict[int, int] = {}
        self._trusted = self._np.zeros(len(self), bool)
        self._name_end: Any = None
        self._agree(lengths)

    def __len__(self) -> int:
        return self.manifest.count

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r}: {len(self)} samples, {self.profile})"

    def __reduce__(self) -> Any:
        return Store, (self.path,)

    def __del__(self) -> None:
        for handle in getattr(self, "_handles", {}).values():
            os.close(handle)

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
        handle, at, length = self._where(index)
        data = os.pread(handle, length, at)
        self._compare(index, data)
        return data

    def rows_into(self, indices: Any, out: Any) -> None:
        """Read the rows of some indices, a sequence or an array, into `out`.

        Args:
            indices: integers.
            out: a C-contiguous uint8 array (len(indices), bytes of a row).

        """
        trusted = self._trusted
        fresh = ~trusted[indices]
        places = self._places(indices)
        for target, (handle, at, length), index in zip(out, places, indices, strict=True):
            if os.preadv(handle, [target], at) != length:
                raise StoreError(self._cut(index))
        for which in fresh.nonzero()[0].tolist():
            self._compare(int(indices[which]), out[which])
        trusted[indices] = True

    def read(self, index: int, start: int, length: int) -> bytes:
        """Return a part of one payload, which is checked as a whole on its first read."""
        handle, at, whole = self._where(index)
        if not self._trusted[index]:
            self._compare(index, os.pread(handle, whole, at))
            self._trusted[index] = True
        data = os.pread(handle, length, at + start)
        if len(data) != length:
            raise StoreError(self._cut(index))
        return data

    def advise(self, indices: Sequence[int]) -> None:
        """Tell the kernel what is read soon: random reads then come at the sequential rate.

        Nothing is told of samples that are in memory, as a few of them show.
        """
        places = self._places(indices)
        if all(_in_memory(*place) for place in places[:: len(places) // PROBES + 1]):
            return
        for handle, at, length in places:
            os.posix_fadvise(handle, at, length, os.POSIX_FADV_WILLNEED)

    def length(self, index: int) -> int:
        """Bytes of one payload."""
        return int(self._ends[index] - self._starts[index])

    def name(self, index: int) -> str:
        """Return where a sample came from: its path in the source."""
        if self._name_end is None:
            self._name_end = self._table("name_end")
            self._table("names")
        start = int(self._name_end[index - 1]) if index else 0
        with (self.path / self.manifest.tables["names"].file).open("rb") as file:
            file.seek(start)
            return file.read(int(self._name_end[index]) - start).decode("utf-8", "replace")

    def table(self, name: str) -> Any:
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
            except StoreError as error:
                wrong.append(str(error))
            if progress:
                progress(self.length(index))
        return wrong

    def _where(self, index: int) -> tuple[int, int, int]:
        """Return (file handle, offset in the file, length) of one sample, faster than `_places`."""
        if not 0 <= index < len(self):
            raise IndexError(f"{self.path} has samples 0 to {len(self) - 1}")
        shard = int(self._sample_end.searchsorted(index, "right"))
        start = int(self._starts[index])
        at = start - int(self._shard_start[shard])
        return self._handle(shard), at, int(self._ends[index]) - start

    def _places(self, indices: Sequence[int]) -> list[tuple[int, int, int]]:
        asked = self._np.asarray(indices, "i8")
        if len(asked) and not 0 <= asked.min() <= asked.max() < len(self):
            raise IndexError(f"{self.path} has samples 0 to {len(self) - 1}")
        shards = self._np.searchsorted(self._sample_end, asked, "right")
        starts = self._starts[asked]
        at = (starts - self._shard_start[shards]).tolist()
        length = (self._ends[asked] - starts).tolist()
        handles = [self._handle(shard) for shard in shards.tolist()]
        return list(zip(handles, at, length, strict=True))

    def _handle(self, shard: int) -> int:
        handle = self._handles.get(shard)
        if handle is None:
            fresh = self._open(shard)
            handle = self._handles.setdefault(shard, fresh)
            if handle != fresh:  # another thread was first
                os.close(fresh)
        return handle

    def _open(self, shard: int) -> int:
        path = self.path / self.manifest.shards[shard].file
        try:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise StoreError(f"cannot open {path}: {error.strerror}") from None

    def _compare(self, index: int, data: Any) -> None:
        if len(data) != self.length(index):
            raise StoreError(self._cut(index))
        if check.of(data) != int(self._checks[index]):
            raise StoreError(
                f"sample {index} ({self._origin(index)}) of {self.path} was altered after packing: "
                "its checksum differs; `hotlap pack verify` lists all such samples"
            )

    def _cut(self, index: int) -> str:
        return f"sample {index} ({self._origin(index)}) of {self.path} is cut short: pack again"

    def _origin(self, index: int) -> str:
        try:
            return self.name(index)
        except StoreError:
            return "its name is lost too"

    def _table(self, name: str) -> Any:
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
        return self._np.frombuffer(data, dtype).reshape(about.shape)

    def _must_have(self, file: str, size: int) -> None:
        path = self.path / file
        try:
            held = path.stat().st_size
        except OSError as error:
            raise StoreError(f"{path} is missing ({error.strerror}): pack again") from None
        if held != size:
            raise StoreError(f"{path} has {held} bytes, packed were {size}: pack or copy it again")

    def _agree(self, lengths: Any) -> None:
        ends = self._sample_end.tolist()
        starts = [0, *ends[:-1]]
        sums = [int(lengths[a:b].sum()) for a, b in zip(starts, ends, strict=True)]
        if len(lengths) != len(self) or sums != [shard.bytes for shard in self.manifest.shards]:
            raise StoreError(f"{self.path}: manifest and tables do not belong together: pack again")


def _in_memory(handle: int, at: int, length: int) -> bool:
    """Whether the last byte can be read without the disk; False where that is not to be known."""
    try:
        return not length or os.preadv(handle, [bytearray(1)], at + length - 1, os.RWF_NOWAIT) == 1
    except OSError:
        return False


def _entries(about: Table) -> int:
    entries = 1
    for size in about.shape:
        entries *= size
    return entries
