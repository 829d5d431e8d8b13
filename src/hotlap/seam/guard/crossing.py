"""Renames that an overlay refuses although the plain script's succeed: done by copying.

Inside a trial a temporary folder and the project lie on two mounts even where they share a disk,
and an ordinary user's overlay cannot rename a directory of the user's own in place.
"""

import errno
import functools
import os
import shutil
import tempfile
from collections.abc import Callable

Named = str | bytes | os.PathLike[str] | os.PathLike[bytes]


def install() -> None:
    """Let `os.rename` and `os.replace` copy where the kernel says EXDEV, for the process's life."""
    for name in ("rename", "replace"):
        setattr(os, name, _copying(getattr(os, name)))


def _copying(rename: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(rename)
    def renamed(src: Named, dst: Named, **at: object) -> None:
        try:
            rename(src, dst, **at)
        except OSError as error:
            if error.errno != errno.EXDEV or at:
                raise
            _copy_and_rename(rename, os.fspath(src), os.fspath(dst))

    return renamed


def _copy_and_rename(rename: Callable[..., None], src: str | bytes, dst: str | bytes) -> None:
    """Copy beside the target first, so that the target is replaced in one step."""
    folder = os.path.dirname(os.path.abspath(os.fsdecode(dst)))
    draft = tempfile.mkdtemp(prefix=".hotlap-rename-", dir=folder)
    copy = os.path.join(draft, "copy")
    try:
        if os.path.isdir(src) and not os.path.islink(src):
            shutil.copytree(os.fsdecode(src), copy, symlinks=True)
            rename(copy, os.fsdecode(dst))
            shutil.rmtree(src)
        else:
            shutil.copy2(os.fsdecode(src), copy, follow_symlinks=False)
            rename(copy, os.fsdecode(dst))
            os.unlink(src)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
