"""Compares a folder before and after a run: the parent's own check of what changed for real.

Cheap on big trees: sizes, times and inodes for all files, content only of small ones.
"""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

_HASHED = 1 << 20
_MOST = 100_000


class Look(NamedTuple):
    """One entry: what changes when somebody writes to it."""

    mode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    sha256: str | None


class Tree(NamedTuple):
    """Entries by their path below the root; `cut` if there were more than were looked at."""

    entries: Mapping[str, Look]
    cut: bool


def tree_hash(root: str | os.PathLike[str], ignore: Iterable[str] = (), most: int = _MOST) -> Tree:
    """Look at every entry below `root`, but for the relative paths in `ignore`.

    Links are not followed. Files below 1 MiB are hashed; what cannot be read has no hash.
    """
    entries: dict[str, Look] = {}
    for path in _below(os.fspath(root), "", frozenset(ignore)):
        if len(entries) >= most:
            return Tree(entries, cut=True)
        seen = _look(os.path.join(root, path))
        if seen is not None:
            entries[path] = seen
    return Tree(entries, cut=False)


def changed(before: Tree, after: Tree) -> tuple[str, ...]:
    """Name the entries that were added, removed or written to, in order of their paths.

    A folder is named when it came, went or has another mode; that its time changed shows in its
    entries. The change time of a file shows new modes, owners and attributes. Of
    trees that were cut, only entries that both have seen can be judged.
    """
    paths = before.entries.keys() | after.entries.keys()
    if before.cut or after.cut:
        paths = before.entries.keys() & after.entries.keys()
    return tuple(sorted(path for path in paths if _differs(before, after, path)))


def _differs(before: Tree, after: Tree, path: str) -> bool:
    old, new = before.entries.get(path), after.entries.get(path)
    if old is None or new is None or old.mode != new.mode:
        return True
    return not stat.S_ISDIR(old.mode) and old != new


def _below(root: str, prefix: str, ignore: frozenset[str]) -> Iterator[str]:
    try:
        with os.scandir(os.path.join(root, prefix)) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        path = f"{prefix}{entry.name}"
        if path in ignore:
            continue
        yield path
        if entry.is_dir(follow_symlinks=False):
            yield from _below(root, f"{path}/", ignore)


def _look(path: str) -> Look | None:
    try:
        entry = os.lstat(path)
    except OSError:
        return None
    return Look(
        entry.st_mode,
        entry.st_size,
        entry.st_mtime_ns,
        entry.st_ctime_ns,
        entry.st_ino,
        _sha(path, entry),
    )


def _sha(path: str, entry: os.stat_result) -> str | None:
    try:
        if stat.S_ISLNK(entry.st_mode):
            return os.fsdecode(os.readlink(path))
        if not stat.S_ISREG(entry.st_mode) or entry.st_size >= _HASHED:
            return None
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
