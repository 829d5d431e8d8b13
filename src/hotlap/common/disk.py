"""What is to outlast a power cut."""

import contextlib
import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Bring a folder's names to the disk; not every file system has a way to."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
