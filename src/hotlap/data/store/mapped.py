"""The shards of a store in the address space, for rows that the kernel holds in memory."""

import os
from pathlib import Path

from hotlap.common.extras import ByteArray, UIntArray, need
from hotlap.data.errors import StoreError
from hotlap.data.store.gather import Maps, library
from hotlap.data.store.record_index import Indices, RecordIndex

MOST = 2 << 30
"""Bytes of a store that stay mapped, about: they count as the process's memory."""
LOOK_EVERY = 256
"""Rows between two looks at how much is mapped."""


class Mapped:
    """Copies rows that are in memory: not through the kernel, and past the caches.

    A shard that has become shorter, or that its disk cannot give, is no bus error: the copy ends,
    and reading the file says what is wrong.
    """

    def __init__(self, records: RecordIndex) -> None:
        self._index = records
        self._rows: tuple[Maps, UIntArray] | None = None
        self._size = 0
        self._able = True
        self._before = self._since = 0

    def copy(self, indices: Indices, out: ByteArray) -> bool:
        """Copy the rows of samples into `out`.

        Args:
            indices: integers.
            out: an array (len(indices), bytes of a row), uint8.

        Returns:
            Whether that was done; if not, they are to be read from the files.
        """
        if not (self._able and len(indices)) or not _plain(out) or len(out) != len(indices):
            return False
        asked = need("numpy").asarray(indices).astype("u8")  # one below 0 becomes a large one
        rows = self._rows or self._mapped()
        if rows is None or out.shape[1] != self._size or asked.max() >= len(self._index):
            return False
        maps, addresses = rows
        self._limit(maps, len(asked))
        return maps.gather(addresses[asked], self._index.shard[asked], out)

    def _mapped(self) -> tuple[Maps, UIntArray] | None:
        """Map the shards and say where the rows lie.

        None where that is not wanted, or the process may not map so much, or payloads differ.
        """
        records, kernel = self._index, library()
        size = int(records.lengths[0])
        self._able = kernel is not None and size > 0 and bool((records.lengths == size).all())
        if kernel is None or not self._able:
            return None
        try:
            handles = [records.handle(number) for number in range(len(records.sizes))]
            maps = Maps(kernel, handles, records.sizes)
        except (StoreError, OSError):  # too many open files, or maps
            self._able = False
            return None
        self._before, self._size = _counted(), size
        self._rows = maps, maps.starts[records.shard] + records.at.astype("u8")
        return self._rows

    def _limit(self, maps: Maps, rows: int) -> None:
        """Forget what is mapped when it is too much; the kernel maps more than is read."""
        self._since += rows
        if self._since < LOOK_EVERY or sum(self._index.sizes) <= MOST:
            return
        self._since = 0
        if _counted() - self._before > MOST:
            maps.forget()


def _plain(out: ByteArray) -> bool:
    return bool(out.ndim == 2 and out.dtype == "u1" and out.flags.carray)


def _counted() -> int:
    """Bytes of mapped files that count as the process's memory."""
    return int(Path("/proc/self/statm").read_text().split()[2]) * os.sysconf("SC_PAGESIZE")
