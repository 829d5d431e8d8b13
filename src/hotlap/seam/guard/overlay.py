"""Where a path of the user's script really lies: in the mirror, or where it always was.

The mirror is a folder below the scratch with the same paths in it. What lies in the mirror
hides what lies at the same path outside; folders that exist on both sides are one folder.
Everything here calls `posix` itself, which is never patched.
"""

import os
import posix
import stat
from collections.abc import Iterator
from typing import Any, NamedTuple

from hotlap.seam.guard.face import need
from hotlap.seam.guard.journal import Journal
from hotlap.seam.guard.roots import Roots

_NOT_NAMES = frozenset({"", ".", ".."})
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


class Place(NamedTuple):
    """One folder, as the script names it, that is not simply left to the kernel."""

    path: str
    clean: bool
    mirrored: bool
    hidden: bool
    straight: bool


class Overlay:
    """The view that all processes of one trial share."""

    def __init__(self, scratch: str, roots: Roots) -> None:
        self.mirror = f"{scratch}/tree"
        self.waiting = f"{scratch}/waiting"
        self.roots = roots
        for folder in (self.mirror, self.waiting):
            os.makedirs(folder, exist_ok=True)
        self.journal = Journal(scratch)
        self._places: dict[str, Place | None] = {}
        self.sync()

    def read(self, path: object, follow: bool = True) -> Any:
        """Where to look for `path`: the same object if nothing there ever changed."""
        if type(path) is not str:
            return self._read_other(path, follow)
        if self.journal.counter[:8] != self.journal.seen:
            self.sync()
        cut = path.rfind("/") + 1
        head = path[:cut]
        places = self._places
        try:
            place = places[head]
        except KeyError:
            place = places[head] = self._place(head)
        if place is None:
            return path
        if place.clean and path[cut:] not in _NOT_NAMES and not (follow and is_link(path)):
            return path
        return self._find(place, path, path[cut:], follow)

    def canonical(self, path: str, follow: bool = True) -> str:
        """Return the absolute path without links or dots, as the script sees the tree.

        Raises OSError (ELOOP) when links lead in a circle.
        """
        return self.walk(path, follow)[0]

    def walk(self, path: str, follow: bool = True) -> tuple[str, bool]:
        """Return the canonical path, and whether the kernel finds it by the given name too."""
        if self.journal.counter[:8] != self.journal.seen:
            self.sync()
        return _walk(self, path, follow)

    def where(self, path: str) -> str:
        """Return the real place of a canonical path; where nothing is, one that is not there."""
        mirrored = self.mirror + path
        if look(mirrored) is not None or self.journal.hides(path):
            return mirrored
        return path

    def own(self, path: str) -> os.stat_result | None:
        """Return the user's own entry at a canonical path, if the script can still see it."""
        return None if self.journal.hides(path) else look(path)

    def outside(self, real: str) -> str:
        """Return the path as the script knows it, of a real one that may lie in the mirror."""
        if real == self.mirror:
            return "/"
        inside = real.startswith(self.mirror + "/")
        return real[len(self.mirror) :] if inside else real

    def changed(self, path: str) -> bool:
        """Whether the folder at a canonical path has entries added or removed."""
        if look(self.mirror + path) is not None:
            return True
        return path in self.journal.thinned or self.journal.hides(path)

    def forget(self) -> None:
        """Drop what was remembered by relative name: the working directory changed."""
        self._places = {}

    def cwd(self) -> str:
        """Return the working directory as the script knows it."""
        return self.outside(posix.getcwd())

    def below(self, fd: int | None, path: Any) -> Any:
        """Return the path that `path` with `dir_fd=fd` means."""
        if fd is None:
            return path
        text = os.fsdecode(path)
        return text if text.startswith("/") else f"{self.behind(fd)}/{text}"

    def behind(self, fd: int) -> str:
        """Return the path that an open descriptor was opened by."""
        return self.outside(posix.readlink(f"/proc/self/fd/{fd}"))

    def sync(self) -> None:
        """Take in what processes of the trial changed since the last look."""
        self.journal.refresh()
        self._places = {}

    def _read_other(self, path: Any, follow: bool) -> object:
        if isinstance(path, int):
            return path
        given = os.fspath(path)
        text = os.fsdecode(given) if isinstance(given, bytes) else str.__str__(given)
        found = self.read(text, follow)
        if found == text:
            return path
        return os.fsencode(found) if isinstance(given, bytes) else found

    def _find(self, place: Place, path: str, name: str, follow: bool) -> str:
        if name in _NOT_NAMES:
            return self._search(path, follow)
        if "\0" in name:
            return path  # which the kernel refuses, in its own words
        full = f"{place.path}/{name}"
        real = self.mirror + full
        if not (place.mirrored and posix.access(real, posix.F_OK, follow_symlinks=False)):
            if place.hidden or full in self.journal.gone:
                return real
            real = path if place.straight else full
        return self._search(path, follow) if follow and is_link(real) else real

    def _search(self, path: str, follow: bool) -> str:
        target, straight = self.walk(path, follow)
        real = self.where(target)
        if real == target and straight:
            return path
        return f"{real}/" if path.endswith("/") and real != "/" else real

    def _place(self, head: str) -> Place | None:
        displaced = not head.startswith("/") and posix.getcwd().startswith(self.mirror)
        if self.journal.empty and not displaced:
            return None
        path, straight = self.walk(head or ".")
        straight = straight and not displaced
        if straight and self.roots.kept(path):
            return None
        mirrored = look(self.mirror + path) is not None
        hidden = self.journal.hides(path)
        clean = straight and not (mirrored or hidden or path in self.journal.thinned)
        return Place(path.rstrip("/"), clean, mirrored, hidden, straight)


def _walk(overlay: Overlay, path: str, follow: bool) -> tuple[str, bool]:
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
