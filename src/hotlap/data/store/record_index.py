"""Where the payloads of a store lie: file, offset, length; and the open files."""

import os
import weakref
from collections.abc import Sequence
from pathlib import Path

from hotlap.common.extras import IntArray, need
from hotlap.data.errors import StoreError
from hotlap.data.store.manifest import Shard

PROBES = 4
Span = tuple[int, int, int]
Indices = Sequence[int] | IntArray


class RecordIndex:
    """Finds payloads. A place is (file handle, offset in the file, length).

    Args:
        folder: of the store.
        shards: its files.
        lengths: bytes of each payload, int64.

    `sizes` are those of the shards, in bytes; `shard` is the number of each payload's, and `at` its
    offset there.

    Raises:
        StoreError: the lengths are not those of the shards, or a shard cannot be opened.
    """

    def __init__(self, folder: Path, shards: Sequence[Shard], lengths: IntArray) -> None:
        self._np = need("numpy")
        self._folder = folder
        self._files = [shard.file for shard in shards]
        self.lengths = lengths
        self._handles: dict[int, int] = {}
        weakref.finalize(self, _close, self._handles).atexit = False
        self.sizes = [shard.bytes for shard in shards]
        samples = [shard.samples for shard in shards]
        self._agree(shards, lengths, self._np.cumsum(samples).tolist())
        before = self._np.cumsum([0, *self.sizes])[:-1]
        self.shard = self._np.repeat(self._np.arange(len(shards), dtype="u4"), samples)
        self.at = self._np.cumsum(lengths) - lengths - self._np.repeat(before, samples)

    def __len__(self) -> int:
        return len(self.lengths)

    def close(self) -> None:
        """Close the files."""
        _close(self._handles)

    def length(self, index: int) -> int:
        """Bytes of one payload."""
        return int(self.lengths[index])

    def one(self, index: int) -> Span:
        """Return a sample's place: `many` of one, without arrays."""
        if not 0 <= index < len(self):
            raise self._outside()
        return self.handle(int(self.shard[index])), int(self.at[index]), self.length(index)

    def many(self, indices: Indices) -> list[Span]:
        """Return the places of samples, a sequence or an array of integers."""
        asked = self._np.asarray(indices, "i8")
        if len(asked) and not 0 <= asked.min() <= asked.max() < len(self):
            raise self._outside()
        shards = self.shard[asked].tolist()
        handles = {shard: self.handle(shard) for shard in set(shards)}
        found = map(handles.__getitem__, shards)
        return list(zip(found, self.at[asked].tolist(), self.lengths[asked].tolist(), strict=True))

    def advise(self, indices: Indices) -> None:
        """Tell the kernel what is read soon, unless a few of the samples show that it is there."""
        if all(map(self._in_memory, indices[:: len(indices) // PROBES + 1])):
            return
        for handle, at, length in self.many(indices):
            os.posix_fadvise(handle, at, length, os.POSIX_FADV_WILLNEED)

    def _in_memory(self, index: int) -> bool:
        """Whether the end of a sample can be read without the disk; False where nobody knows."""
        handle, at, length = self.one(index)
        try:
            last = [bytearray(1)]
            return not length or os.preadv(handle, last, at + length - 1, os.RWF_NOWAIT) == 1
        except OSError:
            return False

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

    def _agree(self, shards: Sequence[Shard], lengths: IntArray, ends: list[int]) -> None:
        sums = [int(lengths[a:b].sum()) for a, b in zip([0, *ends], ends, strict=False)]
        if len(lengths) != sum(shard.samples for shard in shards) or sums != self.sizes:
            raise StoreError(
                f"{self._folder}: manifest and tables do not belong together: pack again"
            )


def _close(handles: dict[int, int]) -> None:
    for handle in handles.values():
        os.close(handle)
    handles.clear()
