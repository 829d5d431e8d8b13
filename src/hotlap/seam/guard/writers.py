"""The `os` functions that change the tree, done in the mirror instead."""

import os
import posix
import stat
from collections.abc import Callable
from typing import Any

from hotlap.seam.guard.copying import copy_up, grow
from hotlap.seam.guard.face import Face, naming, need
from hotlap.seam.guard.listing import names
from hotlap.seam.guard.overlay import Overlay, look


class Writers(Face):
    """Making, removing and changing entries, on one overlay."""

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay

    def make(self, name: str, path: object, *args: object, dir_fd: int | None = None) -> None:
        """`os.mkdir`, `os.mkfifo`, `os.mknod`: a new entry."""
        real = getattr(posix, name)
        with naming(path):
            target = self._target(path, dir_fd)
            if self._overlay.roots.kept(target):
                real(target, *args)
                return
            self.fresh(target)
            real(self._overlay.mirror + target, *args)
            self._overlay.journal.grew()

    def fresh(self, target: str) -> None:
        """Make room in the mirror for a new entry. Raises FileExistsError."""
        need(look(self._overlay.where(target)) is None, "EEXIST", target)
        grow(self._overlay, target.rpartition("/")[0] or "/")

    def remove(self, path: object, *, dir_fd: int | None = None) -> None:
        """`os.remove`: the user's own file stays, and is hidden."""
        with naming(path):
            target = self._target(path, dir_fd)
            if self._overlay.roots.kept(target):
                posix.unlink(target)
                return
            entry = look(self._overlay.where(target))
            need(entry is not None, "ENOENT", target)
            need(not (entry and stat.S_ISDIR(entry.st_mode)), "EISDIR", target)
            self.erase(target)

    def rmdir(self, path: object, *, dir_fd: int | None = None) -> None:
        """`os.rmdir`."""
        with naming(path):
            target = self._target(path, dir_fd)
            if self._overlay.roots.kept(target):
                posix.rmdir(target)
                return
            need(not names(self._overlay, target), "ENOTEMPTY", target)
            self.erase(target)

    def erase(self, target: str) -> None:
        """Remove an entry (a folder: an empty one) from the script's view."""
        if self._overlay.own(target) is not None:
            self._overlay.journal.hide(target)
        mirrored = self._overlay.mirror + target
        entry = look(mirrored)
        if entry is not None and stat.S_ISDIR(entry.st_mode):
            posix.rmdir(mirrored)
            self._overlay.journal.grew()
        elif entry is not None:
            posix.unlink(mirrored)

    def symlink(
        self, src: Any, dst: Any, target_is_directory: bool = False, *, dir_fd: int | None = None
    ) -> None:
        """`os.symlink`."""
        del target_is_directory
        with naming(src, dst):
            target = self._target(dst, dir_fd)
            if self._overlay.roots.kept(target):
                posix.symlink(src, target)
                return
            self.fresh(target)
            posix.symlink(src, self._overlay.mirror + target)
            self._overlay.journal.grew()

    def change(self, name: str, path: Any, *args: object, **options: Any) -> object:
        """`os.chmod` and its like: the same call, on the mirror's copy."""
        real = getattr(posix, name)
        if isinstance(path, int):
            return self._change_open(real, path, args, options)
        follow = options.get("follow_symlinks", not name.startswith("l"))
        with naming(path):
            target = self._target(path, options.pop("dir_fd", None), follow)
            if self._overlay.roots.kept(target):
                return real(target, *args, **options)
            return real(copy_up(self._overlay, target), *args, **options)

    def _change_open(
        self,
        real: Callable[..., object],
        fd: int,
        args: tuple[object, ...],
        options: dict[str, object],
    ) -> object:
        """Look up a descriptor of the user's own file or folder by its path."""
        path = self._overlay.behind(fd)
        unnamed = not path.startswith("/") or self._overlay.own(path) is None
        if unnamed or look(path) != posix.fstat(fd) or self._overlay.roots.kept(path):
            return real(fd, *args, **options)
        return real(copy_up(self._overlay, path), *args, **options)

    def _target(self, path: object, dir_fd: int | None, follow: bool = False) -> str:
        return self._overlay.canonical(os.fsdecode(self._overlay.below(dir_fd, path)), follow)
