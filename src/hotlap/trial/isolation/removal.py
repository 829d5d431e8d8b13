"""Removes what a trial left, whatever modes its directories have."""

import contextlib
import os
import shutil
from pathlib import Path


def remove_tree(folder: Path) -> None:
    """Remove a directory of ours; overlayfs leaves one of mode 000 in each work directory."""
    shutil.rmtree(folder, ignore_errors=True)
    if not folder.exists():
        return
    for root, folders, _ in os.walk(folder):
        for name in ("", *folders):
            with contextlib.suppress(OSError):
                path = os.path.join(root, name)
                if not os.path.islink(path):
                    os.chmod(path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)
