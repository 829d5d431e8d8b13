"""Pack shards: the work of one process."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from hotlap.common.extras import Array, IntArray
from hotlap.data.errors import PackError, SampleError
from hotlap.data.order import key
from hotlap.data.pack.encode import Encoder
from hotlap.data.pack.settings import Settings
from hotlap.data.pack.sources.base import Sample, Source
from hotlap.data.store.shard import ShardWriter

ATTEMPTS = 16
Told = Callable[[int, int, int], None]
_Bad = (SampleError, OSError, ValueError)


@dataclass(frozen=True)
class Job:
    """What every process knows: where to write, from what, which samples in which shard."""

    folder: Path
    source: Source
    settings: Settings
    order: IntArray
    cuts: list[int]

    def run(self, shards: Iterable[int], told: Told) -> None:
        """Pack some shards; `told` is called at intervals with (samples, bytes, bad ones)."""
        encode = Encoder(self.settings)
        for shard in shards:
            self._shard(shard, encode, told)

    def _shard(self, shard: int, encode: Encoder, told: Told) -> None:
        start, end = self.cuts[shard], self.cuts[shard + 1]
        with ShardWriter(self.folder, shard, self.source.columns) as writer:
            for index in self.order[start:end].tolist():
                before = len(writer.skipped)
                size = self._add(writer, encode, index)
                told(1, size, len(writer.skipped) - before)

    def _add(self, writer: ShardWriter, encode: Encoder, index: int) -> int:
        try:
            sample, payload = self._read(encode, index)
            writer.add(payload, sample.name, sample.fields)
        except _Bad as error:
            why = _reason(error, self.source.name(index))
            if self.settings.on_error == "raise":
                raise PackError(
                    f"{self.source.name(index)}: {why}; to go on without it: --on-error skip"
                ) from None
            writer.skipped.append((self.source.name(index), why))
            if self.settings.on_error == "skip":
                return 0
            sample, payload = self._instead(encode, index)
            writer.add(payload, sample.name, sample.fields)
        return int(getattr(payload, "nbytes", 0) or len(payload))

    def _read(self, encode: Encoder, index: int) -> tuple[Sample, bytes | Array]:
        sample = self.source.read(index)
        return sample, encode(sample)

    def _instead(self, encode: Encoder, index: int) -> tuple[Sample, bytes | Array]:
        """Read the sample that the seed picks for a bad one."""
        for attempt in range(ATTEMPTS):
            other = key(self.settings.seed, index, attempt) % len(self.source)
            try:
                return self._read(encode, other)
            except _Bad:
                continue
        raise PackError(
            f"{self.source.name(index)} is bad, and so are {ATTEMPTS} samples picked to replace it"
        )


def _reason(error: Exception, name: str) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).removeprefix(name).strip() or type(error).__name__
