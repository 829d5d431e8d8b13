"""The shards of a store in the address space, for rows that the kernel holds in memory."""

import mmap
import os
from dataclasses import dataclass
from typing import Any

from hotlap.data.extras import need
from hotlap.data.store import gather
from hotlap.data.store.places import Places

MOST = 2 << 30
"""Bytes that stay mapped of a store larger than that: they count as the process's memory."""


@dataclass(frozen=True)
class _Maps:
    """The shards, mapped for as long as this is held, and the address of each row."""

    shards: tuple[mmap.mmap, ...]
    addresses: Any


class Mapped:
    """Copies rows that are in memory: without a call of the kernel, and past the caches.

    A shard that has become shorter, or that its disk cannot give, is no bus error: the copy ends,
    and reading the file says what is wrong. `warm`: whether what is read soon is in memory; if not,
    its pages would come one by one.
    """

    def __init__(self, places: Places) -> None:
        self.warm = True
        self._places = places
        self._maps: _Maps | None = None
        self._able = True
        self._copied = 0

    def copy(self, indices: Any, out: Any) -> bool:
        """Copy the rows of samples into `out`, (len(indices), bytes of a row).

        Returns:
            Whether that was done; if not, they are to be read from the files.

        """
        if not (self._able and self.warm and len(indices)) or gather.library() is None:
            return False
        asked = need("numpy").asarray(indices).astype("u8")  # one below 0 becomes a large one
        if asked.max() >= len(self._places):
            return False
        maps = self._maps or self._mapped(out.shape[1])
        if maps is None:
            return False
        self._count(maps, out.size)
        return gather.gathered(maps.addresses[asked], out) and self._whole(asked)

    def _mapped(self, row: int) -> _Maps | None:
        """Map the shards, unless the process may not map so much, or they are not as they were."""
        numpy, places = need("numpy"), self._places
        try:
            shards = tuple(mmap.mmap(places.handle(number), 0, prot=mmap.PROT_READ)
                           for number in range(len(places.sizes)))  # fmt: skip
        except (OSError, ValueError):  # too many open files or maps; an empty file
            shards = ()
        self._able = [*map(len, shards)] == places.sizes and (places.lengths == row).all()
        if self._able:
            starts = [numpy.frombuffer(shard, "u1").ctypes.data for shard in shards]
            addresses = numpy.array(starts, "u8")[places.shard] + places.at.astype("u8")
            self._maps = _Maps(shards, addresses)
        return self._maps

    def _whole(self, asked: Any) -> bool:
        """Whether the files are as long as when they were mapped: beyond its end a page is zero."""
        places = self._places
        for number in set(places.shard[asked].tolist()):
            if os.lseek(places.handle(number), 0, os.SEEK_END) < places.sizes[number]:
                return False
        return True

    def _count(self, maps: _Maps, size: int) -> None:
        self._copied += size
        if self._copied > MOST and sum(self._places.sizes) > MOST:
            self._copied = 0
            for shard in maps.shards:
                shard.madvise(mmap.MADV_DONTNEED)
