"""Directory listings: the mirror's entries and the user's own, as one."""

import os
import posix
import stat
from collections.abc import Iterator
from typing import Any

from hotlap.seam.guard.face import Face, need
from hotlap.seam.guard.overlay import Overlay, look


def names(overlay: Overlay, folder: str) -> list[str]:
    """List what the script sees in the folder at a canonical path.

    Raises FileNotFoundError or NotADirectoryError.
    """
    entry = look(overlay.where(folder))
    need(entry is not None, "ENOENT", folder)
    need(entry is not None and stat.S_ISDIR(entry.st_mode), "ENOTDIR", folder)
    mirrored = overlay.mirror + folder
    above = posix.listdir(mirrored) if look(mirrored) is not None else []
    under = overlay.own(folder)
    if under is None or not stat.S_ISDIR(under.st_mode):
        return above
    prefix = folder.rstrip("/")
    known = set(above)
    return above + [
        name
        for name in posix.listdir(folder)
        if name not in known and not overlay.journal.hides(f"{prefix}/{name}")
    ]


class Listing(Face):
    """`os.listdir` and `os.scandir` on one overlay."""

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay

    def listdir(self, path: Any = ".") -> list[Any]:
        """`os.listdir`."""
        try:
            folder = self._merged(path)
            if folder is None:
                return posix.listdir(path)
            found = names(self._overlay, folder)
        except OSError as error:
            error.filename = path
            raise
        is_bytes = isinstance(_text(path), bytes)
        return [os.fsencode(name) for name in found] if is_bytes else found

    def scandir(self, path: object = ".") -> Any:
        """`os.scandir`; a plain one where nothing in the folder changed."""
        try:
            folder = self._merged(path)
            if folder is None:
                return posix.scandir(path)
            found = names(self._overlay, folder)
        except OSError as error:
            error.filename = path
            raise
        return Scan(self._entry(path, folder, name) for name in found)

    def _merged(self, path: object) -> str | None:
        """Return the canonical path of a folder that is to be put together, else None."""
        self._overlay.read(".")
        if self._overlay.journal.empty:
            return None
        given = "." if path is None else _text(path)
        text = self._overlay.behind(given) if isinstance(given, int) else os.fsdecode(given)
        folder, straight = self._overlay.walk(text)
        as_ever = self._overlay.roots.kept(folder) or not self._overlay.changed(folder)
        return None if straight and as_ever else folder

    def _entry(self, path: object, folder: str, name: str) -> "Entry":
        given = "." if path is None else _text(path)
        real = self._overlay.where(f"{folder.rstrip('/')}/{name}")
        if isinstance(given, int):
            return Entry(name, name, real, self._overlay)
        if isinstance(given, bytes):
            raw = os.fsencode(name)
            return Entry(raw, os.path.join(given, raw), real, self._overlay)
        return Entry(name, os.path.join(given, name), real, self._overlay)


class Scan:
    """What `os.scandir` gives back: an iterator that can be closed."""

    def __init__(self, entries: Iterator["Entry"]) -> None:
        self._entries = entries

    def __iter__(self) -> Iterator["Entry"]:
        return self

    def __next__(self) -> "Entry":
        return next(self._entries)

    def __enter__(self) -> "Scan":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop."""
        self._entries = iter(())


class Entry:
    """Stands for `os.DirEntry`, which cannot be made by hand."""

    def __init__(self, name: object, path: object, real: str, overlay: Overlay) -> None:
        self.name = name
        self.path = path
        self._real = real
        self._overlay = overlay

    def __fspath__(self) -> object:
        return self.path

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Like `os.DirEntry.stat`."""
        found = posix.lstat(self._real)
        if follow_symlinks and stat.S_ISLNK(found.st_mode):
            path = self._overlay.outside(self._real)
            return posix.stat(self._overlay.where(self._overlay.canonical(path)))
        return found

    def inode(self) -> int:
        """Like `os.DirEntry.inode`."""
        return self.stat(follow_symlinks=False).st_ino

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Like `os.DirEntry.is_dir`."""
        return stat.S_ISDIR(self._mode(follow_symlinks))

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Like `os.DirEntry.is_file`."""
        return stat.S_ISREG(self._mode(follow_symlinks))

    def is_symlink(self) -> bool:
        """Like `os.DirEntry.is_symlink`."""
        return stat.S_ISLNK(self._mode(follow=False))

    def is_junction(self) -> bool:
        """Like `os.DirEntry.is_junction`: never, outside of Windows."""
        return False

    def _mode(self, follow: bool) -> int:
        try:
            return self.stat(follow_symlinks=follow).st_mode
        except FileNotFoundError:
            return 0


def _text(path: Any) -> Any:
    return path if path is None or isinstance(path, int) else os.fspath(path)
