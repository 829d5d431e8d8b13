"""Where the payloads of a store lie: file, offset, length; and the open files."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hotlap.data.errors import StoreError
from hotlap.data.extras import need
from hotlap.data.store.manifest import Shard

PROBES = 4
Place = tuple[int, int, int]


class Places:
    """Finds payloads. A place is (file handle, offset in the file, length).

    Args:
        folder: of the store.
        shards: its files.
        lengths: bytes of each payload, int64.

    `shards` are there, with `bytes` in all.

    Raises:
        StoreError: the lengths are not those of the shards, or a shard cannot be opened.

    """

    def __init__(self, folder: Path, shards: Sequence[Shard], lengths: Any) -> None:
        self._np = need("numpy")
        self._folder = folder
        self._files = [shard.file for shard in shards]
        self._lengths = lengths
        self._handles: dict[int, int] = {}
        self.shards = len(shards)
        self.bytes = sum(shard.bytes for shard in shards)
        samples = [shard.samples for shard in shards]
        self._agree(shards, lengths, self._np.cumsum(samples).tolist())
        before = self._np.cumsum([0, *(shard.bytes for shard in shards)])[:-1]
        self._shard = self._np.repeat(self._np.arange(len(shards), dtype="u4"), samples)
        self._at = self._np.cumsum(lengths) - lengths - self._np.repeat(before, samples)

    def __len__(self) -> int:
        return len(self._lengths)

    def close(self) -> None:
        """Close the files."""
        for handle in self._handles.values():
            os.close(handle)
        self._handles = {}

    def length(self, index: int) -> int:
        """Bytes of one payload."""
        return int(self._lengths[index])

    def one(self, index: int) -> Place:
        """Return a sample's place: `many` of one, without arrays."""
        if not 0 <= index < len(self):
            raise self._outside()
        return self.handle(int(self._shard[index])), int(self._at[index]), self.length(index)

    def many(self, indices: Any) -> list[Place]:
        """Return the places of samples, a sequence or an array of integers."""
        numbers, at, lengths = (found.tolist() for found in self.where(indices))
        handles = {number: self.handle(number) for number in set(numbers)}
        return list(zip(map(handles.__getitem__, numbers), at, lengths, strict=True))

    def where(self, indices: Any) -> tuple[Any, Any, Any]:
        """Return arrays: the samples' shards by number, their offsets there, and their lengths."""
        asked = self._np.asarray(indices, "i8")
        if len(asked) and not 0 <= asked.min() <= asked.max() < len(self):
            raise self._outside()
        return self._shard[asked], self._at[asked], self._lengths[asked]

    def in_memory(self, indices: Any) -> bool:
        """Whether a few of the samples can be read without the disk."""
        probes = indices[:: len(indices) // PROBES + 1]
        return all(_in_memory(*place) for place in self.many(probes))

    def advise(self, indices: Any) -> None:
        """Tell the kernel what is read soon, unless a few of the samples show that it is there."""
        if self.in_memory(indices):
            return
        for handle, at, length in self.many(indices):
            os.posix_fadvise(handle, at, length, os.POSIX_FADV_WILLNEED)

    def handle(self, shard: int) -> int:
        """Return the open file of a shard, by its number."""
        handle = self._handles.get(shard)
        if handle is None:
            fresh = self._open(shard)
            handle = self._handles.setdefault(shard, fresh)
            if handle != fresh:  # another thread was first
                os.close(fresh)
        return handle

    def _open(self, shard: int) -> int:
        path = self._folder / self._files[shard]
        try:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise StoreError(f"cannot open {path}: {error.strerror}") from None

    def _outside(self) -> IndexError:
        return IndexError(f"{self._folder} has samples 0 to {len(self) - 1}")

    def _agree(self, shards: Sequence[Shard], lengths: Any, ends: list[int]) -> None:
        sums = [int(lengths[a:b].sum()) for a, b in zip([0, *ends], ends, strict=False)]
        wanted = [shard.bytes for shard in shards]
        if len(lengths) != sum(shard.samples for shard in shards) or sums != wanted:
            raise StoreError(
                f"{self._folder}: manifest and tables do not belong together: pack again"
            )


def _in_memory(handle: int, at: int, length: int) -> bool:
    """Whether the last byte can be read without the disk; False where that is not to be known."""
    try:
        return not length or os.preadv(handle, [bytearray(1)], at + length - 1, os.RWF_NOWAIT) == 1
    except OSError:
        return False
