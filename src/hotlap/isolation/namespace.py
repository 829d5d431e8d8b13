"""Enters a mount namespace in which writes go to layers; runs in the child, before `exec`.

Only the standard library and system calls: the process is single-threaded, and nothing of the
machine outside the namespace is changed. As a script it enters a layout and tests it.
"""

import contextlib
import ctypes
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NEW_MOUNTS, NEW_USER = 0x00020000, 0x10000000
READ_ONLY, REMOUNT, BIND, RECURSIVE, SLAVE = 1, 32, 4096, 16384, 1 << 19
FLAGS = {
    "nosuid": 2, "nodev": 4, "noexec": 8, "noatime": 1 << 10, "nodiratime": 1 << 11,
    "relatime": 1 << 21,
}  # fmt: skip
_libc = ctypes.CDLL(None, use_errno=True)


def enter(layout: Mapping[str, Any]) -> None:
    """Make the mounts of a layout, for this process and what it starts.

    Raises:
        OSError: the kernel refuses; the message names the mount.
    """
    cwd = os.getcwd()
    _unshare(privileged=layout["privileged"])
    mount("none", "/", flags=RECURSIVE | SLAVE)
    # All places are opened and all layers made first: a mount hides what lies below it. Shallow
    # paths are mounted first, so that deep ones stay on top.
    there = [pair for pair in layout["shared"].items() if os.path.lexists(pair[1])]
    places: dict[str, _Share | _Overlay] = {
        path: _Overlay(layout, path) for path in layout["overlays"]
    }
    places |= {path: _Share(path, source) for path, source in there}
    for path in sorted(places, key=lambda path: path.count("/")):
        places[path].mount()
    for path, options in layout["readonly"].items():
        _make_read_only(path, options)
    os.chdir(cwd)


def _unshare(*, privileged: bool) -> None:
    uid, gid = os.getuid(), os.getgid()
    kinds = NEW_MOUNTS if privileged else NEW_MOUNTS | NEW_USER
    if _libc.unshare(kinds):
        number = ctypes.get_errno()
        raise OSError(number, f"unshare: {os.strerror(number)}")
    if not privileged:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """The system call, with the target's name in the error."""
    encoded = [os.fsencode(word) or None for word in (source, target, kind)]
    if _libc.mount(*encoded, ctypes.c_ulong(flags), os.fsencode(data) or None):
        number = ctypes.get_errno()
        raise OSError(number, f"mount {kind or 'bind'}: {os.strerror(number)}", target)


class _Share:
    """A place that stays what it is outside, or shows another directory."""

    def __init__(self, path: str, source: str) -> None:
        self.path = path
        self._source = _opened(source)

    def mount(self) -> None:
        mount(f"/proc/self/fd/{self._source}", self.path, flags=BIND | RECURSIVE)


class _Overlay:
    """A directory whose writes go to a layer of its own."""

    def __init__(self, layout: Mapping[str, Any], path: str) -> None:
        self.path = path
        self._needed = path in layout["needed"]
        self._privileged = layout["privileged"]
        base = Path(layout["layers"]) / path.strip("/").replace("/", "%")
        upper, work = base / "upper", base / "work"
        upper.mkdir(parents=True)
        work.mkdir()
        _look_alike(upper, path)
        _place_files(layout["files"], path, upper)
        self._lower, self._upper, self._work = (_opened(place) for place in (path, upper, work))

    def mount(self) -> None:
        layers = {"lowerdir": self._lower, "upperdir": self._upper, "workdir": self._work}
        data = ",".join(f"{name}=/proc/self/fd/{number}" for name, number in layers.items())
        # A user namespace may only use `user.` attributes, and with those a directory of the lower
        # layer cannot be renamed in place (EXDEV, upon which `mv` and shutil copy).
        data += ",redirect_dir=on" if self._privileged else ",userxattr"
        try:
            mount("overlay", self.path, "overlay", 0, data)
        except OSError:
            if self._needed:
                raise
            mount(f"/proc/self/fd/{self._lower}", self.path, flags=BIND | RECURSIVE)
            _make_read_only(self.path, [])


def _opened(path: str | Path) -> int:
    return os.open(path, os.O_PATH | os.O_CLOEXEC)


def _look_alike(target: Path, source: str) -> None:
    """Give a directory of the layer the owner and mode of the one that it stands for."""
    try:
        original = os.stat(source)
        target.chmod(original.st_mode & 0o7777)
        os.chown(target, original.st_uid, original.st_gid)
    except OSError:  # another owner's; in a user namespace it is ours
        target.chmod(0o755)


def _place_files(files: Mapping[str, str], root: str, upper: Path) -> None:
    """Put files into the layer itself: they appear in the trial and nowhere else."""
    for name, text in files.items():
        if not name.startswith(root + "/"):
            continue
        folder, inside = upper, Path(root)
        for part in Path(os.path.relpath(name, root)).parent.parts:
            folder, inside = folder / part, inside / part
            if not folder.exists():
                folder.mkdir()
                _look_alike(folder, str(inside))
        (folder / Path(name).name).write_text(text)


def _make_read_only(path: str, options: list[str]) -> None:
    flags = BIND | REMOUNT | READ_ONLY | sum(FLAGS[option] for option in options)
    with contextlib.suppress(OSError):  # an option that may not change here: it stays as it was
        mount("none", path, flags=flags)


def check(probe: Path) -> None:
    """Write, remove, rename and read back in an isolated directory; `probe` is a new path in it.

    Raises:
        OSError: the layer does not behave as a filesystem.
    """
    for _ in range(2):  # a directory made where one was removed must be empty
        probe.mkdir()
        (probe / "a").write_text("a")
        (probe / "a").rename(probe / "b")
        assert (probe / "b").read_text() == "a"
        (probe / "b").unlink()
        probe.rmdir()
    probe.write_text("left for the parent to look for")


if __name__ == "__main__":
    plan = json.loads(Path(sys.argv[1]).read_text())
    try:
        enter(plan["layout"])
        check(Path(plan["probe"]))
    except (OSError, AssertionError) as error:
        print(error, file=sys.stderr)
        sys.exit(1)
