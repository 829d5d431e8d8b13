"""Which directories of a trial become overlays, which stay shared, and which turn read-only.

The kernel refuses an overlay, in a user namespace, over a directory with mount points below it.
Such a directory is split: its subdirectories become overlays of their own, and what lies directly
in it becomes read-only.
"""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

PSEUDO = frozenset((
    "autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts",
    "devtmpfs", "efivarfs", "fusectl", "hugetlbfs", "mqueue", "nsfs", "proc", "pstore",
    "rpc_pipefs", "securityfs", "selinuxfs", "sysfs", "tracefs",
))  # fmt: skip
SYSTEM = ("/bin", "/boot", "/etc", "/lib", "/lib32", "/lib64", "/lost+found", "/sbin")
"""Without root nothing below these is writable anyway; they become read-only with `/`."""
_KEPT_FLAGS = frozenset({"nosuid", "nodev", "noexec", "noatime", "nodiratime", "relatime"})


class Mounted(NamedTuple):
    """One line of /proc/self/mountinfo: where, which filesystem, with which options."""

    path: str
    filesystem: str
    options: frozenset[str]
    is_directory: bool = True

    @property
    def holds_files(self) -> bool:
        """Whether it is a writable directory of a real filesystem."""
        writable = "ro" not in self.options and self.filesystem not in PSEUDO
        return writable and self.is_directory


@dataclass(frozen=True)
class Layout:
    """The mounts of one trial, as absolute paths; serialised for the child that makes them.

    `overlays` take the trial's writes in a layer. `shared` maps a path to the directory that is
    bound there and written for real. `readonly` maps a mount point to the options it must keep.
    `needed` are the overlays without which the trial cannot be isolated; any other one that the
    kernel refuses becomes read-only. Layers lie below `layers`.
    """

    overlays: tuple[str, ...]
    shared: dict[str, str]
    readonly: dict[str, list[str]]
    needed: tuple[str, ...]
    layers: str
    privileged: bool
    files: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """As the supervisor reads it."""
        return asdict(self)


def mounts(text: str | None = None) -> list[Mounted]:
    """The mounts of this process; of several on one place the topmost."""
    text = os.fsdecode(Path("/proc/self/mountinfo").read_bytes()) if text is None else text
    found: dict[str, Mounted] = {}
    for line in text.splitlines():
        about, _, device = line.partition(" - ")
        fields = about.split()
        path = _unescaped(fields[4])
        found.pop(path, None)
        options = frozenset(fields[5].split(","))
        found[path] = Mounted(path, device.split()[0], options, not os.path.isfile(path))
    return list(found.values())


def _unescaped(path: str) -> str:
    """Undo the kernel's octal escapes of blanks and backslashes."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)


def below(path: str, root: str) -> bool:
    """Whether `path` is `root` or lies below it."""
    return path == root or path.startswith(root.rstrip("/") + "/")


@dataclass
class Planner:
    """Works out the layout for a working directory.

    Args:
        table: the mounts of this process.
        cover: directories that must be isolated although they lie below a shared one.
        keep: directories that stay shared: temporary ones, caches, devices.
        privileged: whether mounts need no user namespace.
        subdirectories: lists the real directories directly below one.
        is_empty: says that nothing lies in a directory.
    """

    table: Sequence[Mounted]
    cover: Sequence[str]
    keep: Sequence[str]
    privileged: bool
    subdirectories: Callable[[str], Iterable[str]]
    is_empty: Callable[[str], bool] = lambda _: False

    def __post_init__(self) -> None:
        self._overlays: set[str] = set()
        self._split: set[str] = set()
        self._points = {mounted.path for mounted in self.table}

    def layout(self, layers: str, shared: dict[str, str], needed: Sequence[str]) -> Layout:
        """Plan it, with further places shared, the layers' own directory hidden among them."""
        for mounted in self.table:
            if mounted.holds_files and not self._kept(mounted.path):
                self._expand(mounted.path)
        for path in self.cover:
            if any(below(path, root) for root in self.keep):
                self._overlays.add(path)
        kept = [path for path in self.keep if path not in self.cover and self._matters(path)]
        inside = [m.path for m in self.table if not m.holds_files and self._matters(m.path)]
        shares = {path: path for path in (*kept, *inside)} | shared
        return Layout(
            overlays=tuple(sorted(self._overlays)),
            shared=shares,
            readonly={path: self._options(path) for path in sorted(self._split)},
            needed=tuple(p for p in sorted(self._overlays) if any(below(n, p) for n in needed)),
            layers=layers,
            privileged=self.privileged,
        )

    def _kept(self, path: str) -> bool:
        """Whether of the directories to keep and to cover the deepest one above it is kept."""
        roots = (root for root in (*self.keep, *self.cover) if below(path, root))
        return max(roots, key=len, default="") in self.keep

    def _expand(self, path: str) -> None:
        if path in self.keep or (not self.privileged and path in SYSTEM):
            return
        top = path.count("/") == 1 and path not in (*self._points, *self.cover)
        if top and self.is_empty(path):
            return  # it becomes read-only with the root: each layer costs a few directories
        nested = any(below(point, path) and point != path for point in self._points)
        if path != "/" and not (nested and not self.privileged):
            self._overlays.add(path)
            return
        self._split.add(self._mount_of(path))
        for child in self.subdirectories(path):
            if child not in self._points:
                self._expand(child)

    def _mount_of(self, path: str) -> str:
        return max((p for p in self._points if below(path, p)), key=len)

    def _matters(self, path: str) -> bool:
        """Whether a shared place would be hidden by an overlay or made read-only."""
        if any(below(path, root) for root in self._overlays):
            return True
        return path not in self._points and self._mount_of(path) in self._split

    def _options(self, path: str) -> list[str]:
        mounted = next(m for m in self.table if m.path == path)
        return sorted(mounted.options & _KEPT_FLAGS)


def subdirectories(path: str) -> list[str]:
    """The real directories directly below `path`; none where it cannot be read."""
    try:
        with os.scandir(path) as entries:
            return sorted(e.path for e in entries if e.is_dir(follow_symlinks=False))
    except OSError:
        return []


def is_empty(path: str) -> bool:
    """Whether nothing lies in a directory that can be read."""
    try:
        with os.scandir(path) as entries:
            return next(entries, None) is None
    except OSError:
        return False
