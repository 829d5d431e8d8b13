"""`os.rename`, `os.replace`, `os.link`: two paths, either of which may be the user's own."""

import os
import posix
import stat

from hotlap.seam.guard.copying import copy_up, grow
from hotlap.seam.guard.face import Face, naming, need
from hotlap.seam.guard.listing import names
from hotlap.seam.guard.overlay import Overlay, look
from hotlap.seam.guard.writers import Writers


class Moving(Face):
    """Renames and hard links on one overlay."""

    def __init__(self, overlay: Overlay, writers: Writers) -> None:
        self._overlay = overlay
        self._writers = writers

    def rename(
        self,
        src: object,
        dst: object,
        *,
        src_dir_fd: int | None = None,
        dst_dir_fd: int | None = None,
    ) -> None:
        """`os.rename` and `os.replace`: what moves is copied up if it is the user's own."""
        with naming(src, dst):
            source, target = self._pair(src, src_dir_fd, dst, dst_dir_fd, follow=False)
            if self._kept(source) and self._kept(target):
                posix.rename(source, target)
                return
            if source != target:
                self._check(source, target)
                self._move(source, target)

    def link(
        self,
        src: object,
        dst: object,
        *,
        src_dir_fd: int | None = None,
        dst_dir_fd: int | None = None,
        follow_symlinks: bool = True,
    ) -> None:
        """`os.link`: never a second name for the user's own data, but a copy of it."""
        with naming(src, dst):
            source, target = self._pair(src, src_dir_fd, dst, dst_dir_fd, follow_symlinks)
            real = self._lifted(source)
            if self._kept(target):
                posix.link(real, target)
                return
            self._writers.fresh(target)
            posix.link(real, self._overlay.mirror + target, follow_symlinks=False)

    def _move(self, source: str, target: str) -> None:
        lifted = self._lifted(source, whole=True)
        if self._kept(target):
            place = target
        else:
            grow(self._overlay, target.rpartition("/")[0] or "/")
            place = self._cleared(target)
        posix.rename(lifted, place)
        if not self._kept(source) and self._overlay.own(source) is not None:
            self._overlay.journal.hide(source)
        self._overlay.journal.grew()

    def _cleared(self, target: str) -> str:
        """Hide a folder of the user's where something arrives; return the mirror's place."""
        entry = self._overlay.own(target)
        if entry is not None and not stat.S_ISREG(entry.st_mode):
            self._overlay.journal.hide(target)
        return self._overlay.mirror + target

    def _lifted(self, source: str, whole: bool = False) -> str:
        if self._kept(source):
            return source
        mirrored = copy_up(self._overlay, source)
        entry = posix.lstat(mirrored)
        if whole and stat.S_ISDIR(entry.st_mode):
            self._lift_content(source)
        return mirrored

    def _lift_content(self, folder: str) -> None:
        for name in names(self._overlay, folder):
            self._lifted(f"{folder}/{name}", whole=True)

    def _check(self, source: str, target: str) -> None:
        """Raise what the kernel would, which sees only one side of the tree."""
        moved = look(self._overlay.where(source))
        need(moved is not None, "ENOENT", source)
        there = look(self._overlay.where(target))
        if moved is None or there is None:
            return
        to_folder = stat.S_ISDIR(there.st_mode)
        if stat.S_ISDIR(moved.st_mode):
            need(to_folder, "ENOTDIR", target)
            need(not names(self._overlay, target), "ENOTEMPTY", target)
        else:
            need(not to_folder, "EISDIR", target)

    def _pair(
        self, src: object, src_fd: int | None, dst: object, dst_fd: int | None, follow: bool
    ) -> tuple[str, str]:
        overlay = self._overlay
        source = overlay.canonical(os.fsdecode(overlay.below(src_fd, src)), follow)
        return source, overlay.canonical(os.fsdecode(overlay.below(dst_fd, dst)), follow=False)

    def _kept(self, path: str) -> bool:
        return self._overlay.roots.kept(path)
