"""The shards of a store in the address space, for rows that the kernel holds in memory."""

import mmap
from typing import Any

from hotlap.data.errors import StoreError
from hotlap.data.extras import need
from hotlap.data.store.gather import Maps, gathered, library
from hotlap.data.store.places import Places

MOST = 2 << 30
"""Bytes that stay mapped of a store larger than that: they count as the process's memory."""


class Mapped:
    """Copies rows that are in memory: without a call of the kernel, and past the caches.

    A shard that has become shorter, or that its disk cannot give, is no bus error: the copy ends,
    and reading the file says what is wrong. `warm`: whether what is read soon is in memory; if not,
    its pages would come one by one.
    """

    def __init__(self, places: Places) -> None:
        self.warm = True
        self._places = places
        self._rows: tuple[Maps, Any] | None = None
        self._able = True
        self._copied = 0

    def copy(self, indices: Any, out: Any) -> bool:
        """Copy the rows of samples into `out`, (len(indices), bytes of a row).

        Returns:
            Whether that was done; if not, they are to be read from the files.

        """
        if not (self._able and self.warm and len(indices)) or library() is None:
            return False
        asked = need("numpy").asarray(indices).astype("u8")  # one below 0 becomes a large one
        if asked.max() >= len(self._places):
            return False
        rows = self._rows or self._mapped(out.shape[1])
        if rows is None:
            return False
        maps, addresses = rows
        self._count(maps, out.size)
        return gathered(maps, addresses[asked], self._places.shard[asked], out)

    def _mapped(self, size: int) -> tuple[Maps, Any] | None:
        """Map the shards and say where rows of so many bytes lie.

        None where the process may not map so much, or they are not as they were.
        """
        numpy, places = need("numpy"), self._places
        try:
            handles = [places.handle(number) for number in range(len(places.sizes))]
            files = tuple(mmap.mmap(handle, 0, prot=mmap.PROT_READ) for handle in handles)
        except (StoreError, OSError, ValueError):  # too many open files or maps; an empty file
            files = ()
        self._able = [*map(len, files)] == places.sizes and (places.lengths == size).all()
        if not self._able:
            return None
        maps = Maps(files, numpy.array(handles, "i4"), numpy.array(places.sizes, "i8"))
        self._rows = maps, maps.starts()[places.shard] + places.at.astype("u8")
        return self._rows

    def _count(self, maps: Maps, size: int) -> None:
        self._copied += size
        if self._copied > MOST and sum(self._places.sizes) > MOST:
            self._copied = 0
            for file in maps.files:
                file.madvise(mmap.MADV_DONTNEED)
