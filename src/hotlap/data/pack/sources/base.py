"""What a source offers to packing."""

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from hotlap.common.extras import Array

IMAGES = frozenset(
    ".jpg .jpeg .jpe .png .bmp .webp .gif .tif .tiff .ppm .pgm .jp2 .avif".split()  # noqa: SIM905
)
_MAGIC = (
    b"\xff\xd8\xff", b"\x89PNG\r\n", b"GIF87a", b"GIF89a", b"II*\x00", b"MM\x00*",
    b"\x00\x00\x00\x0cjP  ",
)  # fmt: skip
Opened = TypeVar("Opened")


@dataclass(frozen=True)
class Sample:
    """One sample: an encoded image, bytes of tokens, an array, or None; and fields about it."""

    data: Any
    name: str
    fields: Mapping[str, object] = field(default_factory=dict)


class Source(Protocol):
    """Samples by number. It is handed to processes by forking, so it need not be picklable.

    `columns`: kinds of the fields of variable length (`store.values.KINDS`). `profile`: the one
    that fits the data. `left_out`: what was seen in the source and is not kept, in words.
    """

    kind: str
    classes: tuple[str, ...]
    columns: Mapping[str, str]
    profile: str
    left_out: tuple[str, ...]

    def __len__(self) -> int: ...

    def read(self, index: int) -> Sample:
        """Read one sample; OSError and ValueError mark it as bad."""

    def name(self, index: int) -> str:
        """Say where a sample lies."""

    def identity(self) -> str:
        """Return a digest that changes when the source does."""

    def prepare(self, folder: Path) -> None:
        """Get ready for random access; may leave files in `folder` while packing."""

    def about(self) -> dict[str, object]:
        """Return what the manifest's settings should hold on this source."""

    def tables(self) -> dict[str, Array]:
        """Return further tables for the store."""


class Plain:
    """A source with nothing to prepare, and nothing to say beyond its samples."""

    classes: tuple[str, ...] = ()
    columns: Mapping[str, str] = {}
    profile = "jpeg"
    left_out: tuple[str, ...] = ()

    def prepare(self, folder: Path) -> None:
        """Do nothing."""

    def about(self) -> dict[str, object]:
        """Return nothing."""
        return {}

    def tables(self) -> dict[str, Array]:
        """Return none."""
        return {}


class PerProcess(Generic[Opened]):
    """Something that is opened anew in each process: handles that must not cross a fork."""

    def __init__(self, opened: Callable[[], Opened]) -> None:
        self._open = opened
        self._held: tuple[int, Opened] | None = None

    def __call__(self) -> Opened:
        """Return it, opened in this process."""
        if self._held is None or self._held[0] != os.getpid():
            self._held = os.getpid(), self._open()
        return self._held[1]


def looks_like_image(data: bytes) -> bool:
    """Whether bytes begin as an encoded image does."""
    if data.startswith(_MAGIC):
        return True
    if data[:4] == b"RIFF":
        return data[8:12] == b"WEBP"
    if data[:2] == b"BM":
        return data[6:10] == bytes(4)  # reserved, always 0
    if data[:2] in {b"P5", b"P6"}:
        return data[2:3].isspace()
    return data[4:12] in {b"ftypavif", b"ftypavis"}


def read_file(path: str | Path) -> bytes:
    """Return the bytes of a regular file.

    Raises:
        ValueError: it is something else, such as a FIFO, which would never end.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError("is not a regular file")
        return file.read()


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
