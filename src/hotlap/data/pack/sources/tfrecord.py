"""TFRecord files of `tf.train.Example`."""

import struct
from collections.abc import Sequence
from pathlib import Path

from hotlap.common.extras import has, need
from hotlap.data.errors import PackError
from hotlap.data.pack.settings import Settings
from hotlap.data.pack.sources.base import looks_like_image, stamps
from hotlap.data.pack.sources.protobuf import Feature, example
from hotlap.data.pack.sources.records import Records, scanned

_MASK_DELTA = 0xA282EAD8
Span = tuple[int, int, int]


class TfRecords(Records):
    """Examples of TFRecord files: a feature with one value is that value, else an array or a list.

    A file is a row of records: length (uint64), masked CRC-32C of the length, the data, masked
    CRC-32C of the data (https://www.tensorflow.org/tutorials/load_data/tfrecord). The checksums are
    compared where the package `crc32c` is installed.
    """

    kind = "TFRecord"

    def __init__(self, paths: Sequence[Path], how: Settings | None = None) -> None:
        super().__init__(", ".join(map(str, paths[:3])), how)
        self._paths = list(paths)
        self._spans = [span for number, path in enumerate(paths) for span in _spans(number, path)]
        self._single: set[str] = set()
        self._text: set[str] = set()
        self._look()
        self.settle(scanned(self.record(index) for index in range(len(self))))

    def __len__(self) -> int:
        return len(self._spans)

    def record(self, index: int) -> dict[str, object]:
        """Read one example."""
        return self._valued(self._features(index))

    def name(self, index: int) -> str:
        """Return the file, and the record's place in it."""
        number, at, _ = self._spans[index]
        return f"{self._paths[number].name} at byte {at}"

    def identity(self) -> str:
        """Return a digest of names, sizes and times."""
        return stamps(self._paths)

    def _features(self, index: int) -> dict[str, Feature]:
        number, at, size = self._spans[index]
        with self._paths[number].open("rb") as file:
            file.seek(at)
            data, check = file.read(size), file.read(4)
        if has("crc32c") and _masked(data) != struct.unpack("<I", check)[0]:
            raise ValueError("its checksum differs: the record is damaged")
        try:
            return example(data)
        except (ValueError, KeyError, TypeError):
            raise PackError(
                f"{self.name(index)} is no tf.train.Example: give the dataset class that reads it "
                "to hotlap.data.pack.pack(dataset, DST)"
            ) from None

    def _look(self) -> None:
        """Find the features that have one value in every example, and those that are text."""
        several: set[str] = set()
        no_text: set[str] = set()
        for index in range(len(self)):
            for name, values in self._features(index).items():
                self._single.add(name)
                if len(values) != 1:
                    several.add(name)
                if isinstance(values, list):
                    self._text.add(name)
                    if not all(map(_is_text, values)):
                        no_text.add(name)
        self._single -= several
        self._text -= no_text

    def _valued(self, features: dict[str, Feature]) -> dict[str, object]:
        found: dict[str, object] = {}
        for name, values in features.items():
            is_text = name in self._text and isinstance(values, list)
            kept = [each.decode() for each in values] if is_text else values
            found[name] = kept[0] if name in self._single else kept
        return found


def _spans(number: int, path: Path) -> list[Span]:
    found, at, end = [], 0, path.stat().st_size
    with path.open("rb") as file:
        while at < end:
            head = file.read(12)
            if len(head) < 12:
                raise PackError(f"{path} is cut short")
            size, check = struct.unpack("<QI", head)
            if at + 16 + size > end or (has("crc32c") and _masked(head[:8]) != check):
                raise PackError(
                    f"{path} is no whole, uncompressed TFRecord file (at byte {at}): unpack it, "
                    "or write it again"
                )
            found.append((number, at + 12, size))
            at += 16 + size
            file.seek(at)
    return found


def _masked(data: bytes) -> int:
    crc = need("crc32c").crc32c(data)
    masked: int = ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF
    return masked


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return not looks_like_image(value)
