"""The shards of a store in the address space, for rows that the kernel holds in memory."""

import mmap
import os
from typing import Any

from hotlap.data.extras import need
from hotlap.data.store import gather
from hotlap.data.store.places import Places

MOST = 2 << 30
"""Bytes that stay mapped of a store larger than that: they count as the process's memory."""


class Mapped:
    """Copies rows that are in memory: without a call of the kernel, and past the caches.

    A shard that has become shorter, or that its disk cannot give, is no bus error: the copy ends,
    and reading the file says what is wrong.
    """

    def __init__(self, places: Places) -> None:
        self._np = need("numpy")
        self._places = places
        self._maps: dict[int, Any] = {}
        self._starts = self._np.zeros(places.shards, "u8")
        self._sizes = self._np.zeros(places.shards, "i8")
        self._copied = 0
        self._able = True

    def copy(self, indices: Any, out: Any) -> bool:
        """Copy the rows of samples into `out`, (len(indices), bytes of a row).

        Returns:
            Whether that was done; if not, they are to be read from the files.

        Raises:
            IndexError: an index is not one of the store's.

        """
        if not self._able or gather.library() is None:
            return False
        if not self._places.in_memory(indices[-1:]):  # its pages would come one by one
            return False
        shards, at, lengths = self._places.where(indices)
        asked = set(shards.tolist())
        if not self._have(asked):
            return False
        if (lengths != out.shape[1]).any() or (at + lengths > self._sizes[shards]).any():
            return False
        self._count(out.size)
        done = gather.gathered(self._starts[shards] + at.astype("u8"), out)
        return done and self._whole(asked)

    def _whole(self, shards: set[int]) -> bool:
        """Whether the files are as long as when they were mapped: beyond its end a page is zero."""
        sizes = ((self._places.handle(shard), self._sizes[shard]) for shard in shards)
        return all(os.fstat(handle).st_size >= size for handle, size in sizes)

    def _have(self, shards: set[int]) -> bool:
        """Map shards that are not; False where the process may not map more."""
        try:
            for shard in shards - self._maps.keys():
                fresh = mmap.mmap(self._places.handle(shard), 0, prot=mmap.PROT_READ)
                found = self._maps.setdefault(shard, fresh)  # another thread may have been first
                self._starts[shard] = self._np.frombuffer(found, "u1").ctypes.data
                self._sizes[shard] = len(found)
        except (OSError, ValueError):  # too many open files or maps; an empty file
            self._able = False
        return self._able

    def _count(self, size: int) -> None:
        self._copied += size
        if self._copied <= MOST or self._places.bytes <= MOST:
            return
        self._copied = 0
        for found in list(self._maps.values()):
            found.madvise(mmap.MADV_DONTNEED)
