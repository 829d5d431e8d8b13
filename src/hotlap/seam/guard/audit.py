"""A witness: writes that reached the system outside of the kept roots are written down.

An audit hook cannot be removed, so there is one for the process; it does nothing while no
guard is installed.
"""

import os
import posix
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from hotlap.seam.guard.roots import Roots

_MOST = 200
_WRITES = posix.O_WRONLY | posix.O_RDWR | posix.O_CREAT | posix.O_TRUNC | posix.O_APPEND
# Event -> positions of the paths it changes. `posix` is called with real paths only, so what
# the guard redirected shows up with its place in the scratch, which is kept.
_CHANGES = {
    "os.chmod": (0,),
    "os.chown": (0,),
    "os.link": (1,),
    "os.mkdir": (0,),
    "os.remove": (0,),
    "os.rename": (0, 1),
    "os.rmdir": (0,),
    "os.symlink": (1,),
    "os.truncate": (0,),
    "os.utime": (0,),
    "sqlite3.connect": (0,),
}


class _Witness(NamedTuple):
    roots: Roots
    log: str
    seen: set[str]


class _Hook:
    active: _Witness | None = None
    added = False


_here = threading.local()


@contextmanager
def expected() -> Iterator[None]:
    """`open` with an opener announces the script's name for the file: not to be recorded."""
    before = getattr(_here, "expected", False)
    _here.expected = True
    try:
        yield
    finally:
        _here.expected = before


@contextmanager
def witnessing(scratch: str, roots: Roots) -> Iterator[None]:
    """Record, in `scratch/slipped`, the paths written to without the guard."""
    before = _Hook.active
    _Hook.active = _Witness(roots, f"{scratch}/slipped", set())
    if not _Hook.added:
        _Hook.added = True
        sys.addaudithook(_hear)
    try:
        yield
    finally:
        _Hook.active = before


def slipped(scratch: str) -> tuple[str, ...]:
    """Return the recorded paths of all processes of the trial, in order, each once."""
    try:
        with open(f"{scratch}/slipped", "rb") as log:
            parts = log.read().split(b"\0")
    except FileNotFoundError:
        return ()
    return tuple(dict.fromkeys(os.fsdecode(part) for part in parts if part))


def _hear(event: str, args: tuple[Any, ...]) -> None:
    witness = _Hook.active
    if witness is None:
        return
    if event == "open":
        if isinstance(args[2], int) and args[2] & _WRITES:
            _record(witness, args[0])
    elif event in _CHANGES:
        for position in _CHANGES[event]:
            _record(witness, args[position])


def _record(witness: _Witness, path: Any) -> None:
    if getattr(_here, "expected", False) or len(witness.seen) >= _MOST:
        return
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if not isinstance(path, str) or path == ":memory:":
        return
    full = os.path.normpath(os.path.join(posix.getcwd(), path))
    if full in witness.seen or witness.roots.kept(full):
        return
    witness.seen.add(full)
    _append(witness.log, full)


def _append(log: str, path: str) -> None:
    try:
        fd = posix.open(log, posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT, 0o600)
    except OSError:
        return
    try:
        posix.write(fd, os.fsencode(path) + b"\0")
    finally:
        posix.close(fd)
