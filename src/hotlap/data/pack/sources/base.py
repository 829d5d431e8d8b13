"""What a source offers to packing."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

IMAGES = frozenset(
    ".jpg .jpeg .jpe .png .bmp .webp .gif .tif .tiff .ppm .pgm .jp2 .avif".split()  # noqa: SIM905
)


@dataclass(frozen=True)
class Sample:
    """One sample: an encoded image, bytes of tokens, or an array; and numbers about it."""

    data: Any
    name: str
    fields: Mapping[str, Any] = field(default_factory=dict)


class Source(Protocol):
    """Samples by number. It is handed to processes by forking, so it need not be picklable."""

    kind: str
    classes: tuple[str, ...]

    def __len__(self) -> int: ...

    def read(self, index: int) -> Sample:
        """Read one sample; OSError and ValueError mark it as bad."""

    def name(self, index: int) -> str:
        """Say where a sample lies."""

    def identity(self) -> str:
        """Return a digest that changes when the source does."""

    def prepare(self, folder: Path) -> None:
        """Get ready for random access; may leave files in `folder` while packing."""

    def about(self) -> dict[str, Any]:
        """Return what the manifest's settings should hold on this source."""

    def tables(self) -> dict[str, Any]:
        """Return further tables for the store."""


class Plain:
    """A source with nothing to prepare, and nothing to say beyond its samples."""

    classes: tuple[str, ...] = ()

    def prepare(self, folder: Path) -> None:
        """Do nothing."""

    def about(self) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def tables(self) -> dict[str, Any]:
        """Return none."""
        return {}


def digest(parts: Iterable[object]) -> str:
    """Return a digest of the parts' texts."""
    total = hashlib.sha256()
    for part in parts:
        total.update(str(part).encode("utf-8", "surrogateescape") + b"\0")
    return total.hexdigest()


def stamps(paths: Iterable[Path]) -> str:
    """Return a digest of names, sizes and times of change."""
    found = ((path, path.stat()) for path in paths)
    return digest(f"{path}|{stat.st_size}|{stat.st_mtime_ns}" for path, stat in found)
