"""Folders on disk: the cache, and names that outlast a power cut."""

import contextlib
import os
from pathlib import Path


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
