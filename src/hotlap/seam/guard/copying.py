"""Bringing a file of the user's up into the mirror before it is changed there."""

import errno
import fcntl
import itertools
import os
import posix
import stat
from collections.abc import Callable
from contextlib import suppress

from hotlap.seam.guard.face import need
from hotlap.seam.guard.overlay import Overlay, look

_FICLONE = 0x40049409
_CHUNK = 1 << 26
_READ = posix.O_RDONLY | posix.O_CLOEXEC
_CREATE = posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_CLOEXEC
_numbers = itertools.count()


def grow(overlay: Overlay, folder: str) -> None:
    """Make the mirror's counterpart of a folder that the script can see.

    Raises FileNotFoundError, NotADirectoryError or PermissionError as the kernel would.
    """
    mirrored = overlay.mirror + folder
    if folder == "/" or look(mirrored) is not None:
        _need_folder(mirrored)
        if overlay.journal.empty:
            overlay.journal.grew()
        return
    entry = overlay.own(folder)
    need(entry is not None, "ENOENT", folder)
    _need_folder(folder)
    need(posix.access(folder, posix.W_OK), "EACCES", folder)
    _grow_all(overlay, folder)
    overlay.journal.grew()


def copy_up(overlay: Overlay, path: str, content: bool = True) -> str:
    """Return the mirror's copy of what lies at a canonical path; make it if need be."""
    mirrored = overlay.mirror + path
    if look(mirrored) is not None:
        return mirrored
    entry = overlay.own(path)
    need(entry is not None, "ENOENT", path)
    assert entry is not None
    if stat.S_ISDIR(entry.st_mode):
        grow(overlay, path)
        return mirrored
    _grow_all(overlay, path.rpartition("/")[0])
    overlay.journal.grew()
    duplicate(overlay, path, mirrored, content)
    return mirrored


def duplicate(overlay: Overlay, source: str, target: str, content: bool = True) -> None:
    """Copy one file or link; the copy appears whole, and a rival's copy is left alone."""
    entry = posix.lstat(source)
    if stat.S_ISLNK(entry.st_mode):
        _quietly_exists(posix.symlink, posix.readlink(source), target)
        return
    draft = f"{overlay.waiting}/{posix.getpid()}-{next(_numbers)}"
    try:
        _copy_content(source, draft, entry if content else None)
        posix.chmod(draft, stat.S_IMODE(entry.st_mode))
        posix.utime(draft, ns=(entry.st_atime_ns, entry.st_mtime_ns))
        _quietly_exists(posix.link, draft, target)
    finally:
        if look(draft) is not None:
            posix.unlink(draft)


def _copy_content(source: str, draft: str, entry: os.stat_result | None) -> None:
    out = posix.open(draft, _CREATE, 0o600)
    try:
        if entry is not None:
            _fill(source, out, entry.st_size)
    finally:
        posix.close(out)


def _fill(source: str, out: int, size: int) -> None:
    fd = posix.open(source, _READ)
    try:
        if not _cloned(fd, out):
            _need_space(out, size, source)
            while posix.sendfile(out, fd, None, _CHUNK):
                pass
    finally:
        posix.close(fd)


def _cloned(fd: int, out: int) -> bool:
    try:
        fcntl.ioctl(out, _FICLONE, fd)
    except OSError:
        return False
    return True


def _need_space(out: int, size: int, source: str) -> None:
    room = posix.fstatvfs(out)
    if size > room.f_bavail * room.f_frsize:
        said = f"no room below hotlap's scratch for a copy of {size >> 20} MiB"
        raise OSError(errno.ENOSPC, said, source)


def _grow_all(overlay: Overlay, folder: str) -> None:
    here = ""
    for part in folder.split("/")[1:]:
        here = f"{here}/{part}"
        if look(overlay.mirror + here) is None:
            entry = look(here)
            _quietly_exists(posix.mkdir, overlay.mirror + here)
            mode = stat.S_IMODE(entry.st_mode) if entry else 0o777
            posix.chmod(overlay.mirror + here, mode | stat.S_IRWXU)


def _need_folder(real: str) -> None:
    entry = look(real)
    need(entry is not None and stat.S_ISDIR(entry.st_mode), "ENOTDIR", real)


def _quietly_exists(make: Callable[..., None], *args: str) -> None:
    with suppress(FileExistsError):
        make(*args)
