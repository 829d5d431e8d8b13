"""Following a path through links and dots, component by component, in the overlay's view."""

from __future__ import annotations

import os
import posix
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hotlap.seam.guard.errors import need

if TYPE_CHECKING:
    from hotlap.seam.guard.overlay import Overlay

_MAX_LINKS = 40


def look(path: str) -> os.stat_result | None:
    """`lstat`, or None where nothing can be seen."""
    try:
        return posix.lstat(path)
    except (OSError, ValueError):
        return None


def is_link(path: str) -> bool:
    """Whether a symbolic link lies there, by the kernel's own view."""
    try:
        return posix.lstat(path).st_mode & 0o170000 == stat.S_IFLNK
    except (OSError, ValueError):
        return False


def walk(overlay: Overlay, path: str, follow: bool) -> tuple[str, bool]:
    """Return the canonical path, and whether the kernel finds it by the given name too.

    Parts that do not exist are kept as they are. Raises OSError for circles and for "".
    """
    need(path != "", "ENOENT", path)
    todo = list(_parts(path))
    if not path.startswith("/"):
        todo += _parts(overlay.cwd())
    done, straight, links = "", True, 0
    while todo:
        name = todo.pop()
        if name == "..":
            done = done[: max(0, done.rfind("/"))]
            continue
        here = f"{done}/{name}"
        target = _target(overlay, here) if todo or follow or path.endswith("/") else ""
        if not target:
            done = here
            continue
        links += 1
        need(links <= _MAX_LINKS, "ELOOP", path)
        straight = straight and overlay.own(here) is not None
        done = "" if target.startswith("/") else done
        todo += _parts(target)
    return done or "/", straight and overlay.own(done or "/") is not None


def _target(overlay: Overlay, path: str) -> str:
    real = overlay.where(path)
    entry = look(real)
    is_link = entry is not None and stat.S_ISLNK(entry.st_mode)
    return posix.readlink(real) if is_link else ""


def _parts(path: str) -> Iterator[str]:
    return (part for part in reversed(path.split("/")) if part not in {"", "."})
