"""Files and folders on disk: the cache, names that outlast a power cut, the end of a long file."""

import contextlib
import ctypes
import os
from pathlib import Path

FULL_BYTES = 1 << 20
"""With less than this left, a write of some blocks may have failed."""
BLOCK_BYTES = 512
"""The unit of `st_blocks`."""
KEEP_SIZE, PUNCH_HOLE = 1, 2
"""Flags of fallocate (linux/falloc.h)."""


def cache_dir() -> Path:
    """`$XDG_CACHE_HOME/hotlap`, or `~/.cache/hotlap` where that is unset or (see XDG) relative.

    Raises RuntimeError where there is no home either.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "hotlap"


def sync_folder(folder: Path) -> None:
    """Bring a folder's names to the disk; not every file system has a way to."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def no_space(folder: Path) -> bool:
    """Whether a write of some blocks may fail there: programs do not always say so."""
    with contextlib.suppress(OSError):
        disk = os.statvfs(folder)
        blocks = disk.f_bavail if os.geteuid() else disk.f_bfree
        return blocks * disk.f_frsize < FULL_BYTES
    return False


def end_of(path: Path, characters: int) -> str:
    """The end of a text file, as much as there is of it; empty where it cannot be read."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 4 * characters))  # so many bytes a character has at the most
            return file.read().decode(errors="replace")[-characters:]
    except OSError:
        return ""


def free_all_but_the_end(path: Path, most: int, kept: int) -> None:
    """Give back the disk space of a file that takes more than `most` bytes, but for `kept` ones.

    These are the last. It keeps its length, and a hole takes the place: who writes or reads it
    meanwhile is not disturbed. Where the file system makes no holes, nothing happens.
    """
    with contextlib.suppress(OSError), path.open("r+b") as file:
        about = os.fstat(file.fileno())
        if about.st_blocks * BLOCK_BYTES > most:
            libc = ctypes.CDLL(None)
            length = ctypes.c_longlong(about.st_size - kept)
            libc.fallocate(file.fileno(), KEEP_SIZE | PUNCH_HOLE, ctypes.c_longlong(0), length)
