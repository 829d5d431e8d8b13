"""`open` and `os.open`: reads look in the mirror first, writes go there."""

import _io
import os
import posix
import stat
from collections.abc import Callable
from typing import Any

from hotlap.seam.guard.copying import copy_up, grow
from hotlap.seam.guard.face import Face, naming
from hotlap.seam.guard.overlay import Overlay, look

_WRITES = posix.O_WRONLY | posix.O_RDWR | posix.O_CREAT | posix.O_TRUNC | posix.O_APPEND
_READS = frozenset({"r", "rb", "rt", "br", "tr"})
_TMPFILE: int = getattr(posix, "O_TMPFILE", 0)


class Files(Face):
    """`open` of `io` and `builtins`."""

    module = "io"

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay
        self._real = RealPlaces(overlay)

    def open(  # noqa: PLR0913, PLR0917, the signature of the built-in one
        self,
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Callable[[str, int], int] | None = None,
    ) -> object:
        """`io.open`; `file.name` stays what the script said."""
        plain = mode in _READS and self._overlay.read(file) is file
        if plain or opener is not None or isinstance(file, int):
            return _io.open(file, mode, buffering, encoding, errors, newline, closefd, opener)
        opener = self._opener
        return _io.open(file, mode, buffering, encoding, errors, newline, closefd, opener)

    def _opener(self, path: object, flags: int) -> int:
        with naming(path):
            return posix.open(self._real.place(path, flags), flags, 0o666)


class Descriptors(Face):
    """`open` of `os`."""

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay
        self._real = RealPlaces(overlay)

    def open(
        self, path: object, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> int:
        """`os.open`."""
        try:
            meant = self._overlay.below(dir_fd, path)
            return posix.open(self._real.place(meant, flags), flags, mode)
        except OSError as error:
            error.filename = path
            raise


class RealPlaces:
    """Where a file is to be opened for real, by the flags it is opened with."""

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay

    def place(self, path: Any, flags: int) -> Any:
        """Find the real path to open with these flags; make what it needs in the mirror."""
        if not flags & _WRITES:
            return self._overlay.read(path, not flags & posix.O_NOFOLLOW)
        text = os.fsdecode(path)
        target, straight = self._overlay.walk(text, not flags & posix.O_NOFOLLOW)
        if self._overlay.roots.kept(target):
            return path if straight or target == text else target
        return self._writable(target, flags, text)

    def _writable(self, path: str, flags: int, given: str) -> str:
        mirrored = self._overlay.mirror + path
        if _TMPFILE and flags & _TMPFILE == _TMPFILE:
            return copy_up(self._overlay, path)
        if look(mirrored) is not None:
            return mirrored
        entry = self._overlay.own(path)
        if entry is None:
            if flags & posix.O_CREAT:
                grow(self._overlay, path.rpartition("/")[0] or "/")
            return f"{mirrored}/" if given.endswith("/") else mirrored
        return self._lifted(path, entry, flags)

    def _lifted(self, path: str, entry: os.stat_result, flags: int) -> str:
        """Copy a file of the user's, unless opening it fails or is no change to it."""
        refused = flags & posix.O_CREAT and flags & posix.O_EXCL
        if refused or not stat.S_ISREG(entry.st_mode) or not posix.access(path, posix.W_OK):
            return path
        return copy_up(self._overlay, path, content=not flags & posix.O_TRUNC)
