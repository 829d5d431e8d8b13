"""The `os` functions that only look: the same call, on the place where the thing lies."""

import os
import posix
from typing import Any

from hotlap.seam.guard.face import Face, naming
from hotlap.seam.guard.overlay import Overlay


class Readers(Face):
    """Looking at entries, and the working directory, on one overlay."""

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay

    def stat(
        self, path: object, *, dir_fd: int | None = None, follow_symlinks: bool = True
    ) -> os.stat_result:
        """`os.stat`, the one that is called most."""
        try:
            if dir_fd is not None:
                path = self._overlay.below(dir_fd, path)
            if follow_symlinks:
                return posix.stat(self._overlay.read(path))
            return posix.lstat(self._overlay.read(path, False))
        except OSError as error:
            error.filename = path
            raise

    def lstat(self, path: object, *, dir_fd: int | None = None) -> os.stat_result:
        """`os.lstat`."""
        return self.stat(path, dir_fd=dir_fd, follow_symlinks=False)

    def look(self, name: str, path: Any, *args: Any, **options: Any) -> object:
        """`os.access`, `os.readlink` and their like."""
        follow = options.get("follow_symlinks", name != "readlink")
        try:
            meant = self._overlay.below(options.pop("dir_fd", None), path)
            return getattr(posix, name)(self._overlay.read(meant, follow), *args, **options)
        except OSError as error:
            error.filename = path
            raise

    def chdir(self, path: object) -> None:
        """`os.chdir`; a folder that exists in the mirror only is entered there."""
        with naming(path):
            if isinstance(path, int):
                posix.chdir(path)
            else:
                posix.chdir(self._folder(path))
        self._overlay.forget()

    def getcwd(self) -> str:
        """`os.getcwd`."""
        return self._overlay.cwd()

    def getcwdb(self) -> bytes:
        """`os.getcwdb`."""
        return os.fsencode(self._overlay.cwd())

    def _folder(self, path: Any) -> Any:
        target, straight = self._overlay.walk(os.fsdecode(path))
        if self._overlay.own(target) is None:
            return self._overlay.mirror + target
        return path if straight and not self._displaced() else target

    def _displaced(self) -> bool:
        return posix.getcwd().startswith(self._overlay.mirror)
