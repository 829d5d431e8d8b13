"""Temporary folders that are removed however hotlap ends, also while a trial is being started.

A trial's own cleaner starts with its supervisor. Before that, and while a tier is tried, a SIGKILL
for hotlap's process group would leave the folders: one process in a session of its own, run as
`folders.py`, reads their paths from a pipe and removes what is left once hotlap is gone.
"""

import contextlib
import functools
import os
import secrets
import shutil
import sys
import tempfile
import time
from pathlib import Path

_PATIENCE_SECONDS = 15.0
_PAUSE_SECONDS = 0.05
KEPT = "kept"
"""A file in a folder that a supervisor removes: processes that use it outlive hotlap."""
_LONGEST = 60
"""Characters of TMPDIR up to which Unix sockets in a trial's folder have addresses that fit (107
bytes): the loader workers of a trial send their batches through sockets that lie there."""


def remove_tree(folder: Path) -> None:
    """Remove a directory of ours; overlayfs leaves one of mode 000 in each work directory."""
    shutil.rmtree(folder, ignore_errors=True)
    if not folder.exists():
        return
    for root, folders, _ in os.walk(folder):
        for name in ("", *folders):
            with contextlib.suppress(OSError):
                path = os.path.join(root, name)
                if not os.path.islink(path):
                    os.chmod(path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)


def temporary_folder(prefix: str, *beside: Path) -> Path:
    """Make a folder of this user's alone, its path known to the remover before it exists.

    Args:
        prefix: how its name begins.
        beside: folders in which directories of the same name are the trial's as well.
    """
    folder = Path(_parent()) / f"{prefix}{secrets.token_hex(6)}"
    for path in (folder, *(place.absolute() / folder.name for place in beside)):
        with contextlib.suppress(OSError):  # the remover was killed: hotlap works without it
            os.write(_remover(), os.fsencode(path) + b"\0")
    folder.mkdir(mode=0o700)
    return folder


def _parent() -> str:
    """TMPDIR, or /tmp where it is too long for sockets."""
    parent = tempfile.gettempdir()
    return "/tmp" if len(os.fsencode(parent)) > _LONGEST and os.access("/tmp", os.W_OK) else parent


@functools.cache
def _remover() -> int:
    """Start it; return the pipe that ends with this process."""
    read, write = os.pipe()
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    actions = [(os.POSIX_SPAWN_DUP2, *pair) for pair in ((read, 0), (null, 1), (null, 2))]
    command = [sys.executable, "-E", __file__]
    os.posix_spawn(sys.executable, command, os.environ, file_actions=actions, setsid=True)
    os.close(read)
    os.close(null)
    return write


def remove_left(paths: list[Path]) -> None:
    """Remove those that exist once no process uses them; a supervisor may still be at work."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    for path in paths:
        if (path / KEPT).exists():
            continue
        while os.path.lexists(path) and _in_use(path.name) and time.monotonic() < deadline:
            time.sleep(_PAUSE_SECONDS)
        if os.path.lexists(path):
            remove_tree(path)


def _in_use(name: str) -> bool:
    mark = os.fsencode(name)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for source in ("cmdline", "environ"):
            with contextlib.suppress(OSError):
                if mark in Path(f"/proc/{pid}/{source}").read_bytes():
                    return True
    return False


if __name__ == "__main__":
    known = b"".join(iter(lambda: os.read(0, 65536), b""))
    remove_left([Path(os.fsdecode(path)) for path in known.split(b"\0")[:-1]])
