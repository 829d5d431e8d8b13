"""Answers for a trial's calls that Landlock does not know, and names what is refused.

Runs in the supervisor. A trial is not an attacker: what a path names is looked up once, and a
program that changes it in the meantime is not looked for.
"""

import contextlib
import errno
import os
import struct
from collections.abc import Sequence
from pathlib import Path

from hotlap.isolation import seccomp
from hotlap.isolation.layout import below

SAID = "hotlap: "
REFUSED = "Landlock refused a write"
_MOST_NAMED = 50
_LONGEST_PATH, _PAGE = 4096, 4096
_SHOWN_CHARACTERS = 60
_AT_CWD = -100
_NO_FOLLOW = 0x100  # AT_SYMLINK_NOFOLLOW


class RefusedCalls:
    """Refuses what lies outside of `writable`, and writes a line to `output` for each such path."""

    def __init__(self, listener: int, writable: Sequence[str], output: int = 2) -> None:
        self._listener = listener
        self._writable = tuple(writable)
        self._output = output
        self._named: set[str] = set()

    def fileno(self) -> int:
        """For `select`."""
        return self._listener

    def answer(self) -> None:
        """Answer one call."""
        with contextlib.suppress(OSError):
            call, thread, number, arguments = seccomp.receive(self._listener)
            kind = seccomp.CALLS[number]
            try:
                error = self._judge(thread, kind, arguments)
            except OSError:  # a process that may not be looked into
                error = errno.EACCES if kind.refuse else 0
            seccomp.respond(self._listener, call, error)

    def _judge(self, thread: int, call: seccomp.Call, arguments: Sequence[int]) -> int:
        nofollow = call.link or (call.flags >= 0 and bool(arguments[call.flags] & _NO_FOLLOW))
        for place in call.places:
            path = _target(thread, place, arguments, follow=not nofollow)
            if path and not self._allowed(path):
                self._name(thread, path)
                return errno.EACCES if call.refuse else 0
        return 0

    def _allowed(self, path: str) -> bool:
        return any(below(path, root) for root in self._writable)

    def _name(self, thread: int, path: str) -> None:
        if path in self._named or len(self._named) >= _MOST_NAMED or "/__pycache__/" in path:
            return
        self._named.add(path)
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{thread}/cmdline").read_bytes().split(b"\0")
            program = " ".join(os.fsdecode(b" ".join(words)).split())[:_SHOWN_CHARACTERS]
            os.write(self._output, os.fsencode(f"{SAID}{refused(path, program)}\n"))


def refused(path: str, program: str = "") -> str:
    """Who was refused which write, and the option that allows it."""
    folder = next(parent for parent in Path(path).parents if parent.is_dir())
    by = f" by `{program}`" if program else ""
    return f"{REFUSED}{by} to {path}; --writable {folder} lets trials write there"


def _target(thread: int, place: tuple[int, int], arguments: Sequence[int], *, follow: bool) -> str:
    """The file that a call is about, as the kernel names it; empty if there is none."""
    folder, name = place
    start = f"/proc/{thread}/cwd"
    if folder >= 0:
        number = struct.unpack("=i", struct.pack("=I", arguments[folder] & 0xFFFFFFFF))[0]
        start = start if number == _AT_CWD else f"/proc/{thread}/fd/{number}"
    path = _string(thread, arguments[name]) if name >= 0 and arguments[name] else ""
    for own in ("/proc/self/", "/proc/thread-self/"):
        path = f"/proc/{thread}/{path.removeprefix(own)}" if path.startswith(own) else path
    if not path:  # the descriptor itself
        return _named_by_kernel(start, follow=True)
    full = os.path.join(start, path)
    found = _named_by_kernel(full, follow=follow)
    if found or os.path.lexists(full):
        return found
    parent = _named_by_kernel(os.path.dirname(full), follow=True)
    return os.path.join(parent, os.path.basename(full)) if parent else ""


def _named_by_kernel(path: str, *, follow: bool) -> str:
    """The canonical path; empty for what has none: pipes, memory, removed files."""
    flags = os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        opened = os.open(path, flags)
    except OSError:
        return ""
    try:
        name = os.readlink(f"/proc/self/fd/{opened}")
        return name if name.startswith("/") and os.stat(opened).st_nlink else ""
    finally:
        os.close(opened)


def _string(thread: int, address: int) -> str:
    """A string in the memory of a thread that waits."""
    found = b""
    with open(f"/proc/{thread}/mem", "rb", buffering=0) as memory:
        while b"\0" not in found and len(found) < _LONGEST_PATH:
            memory.seek(address + len(found))
            found += memory.read(_PAGE - (address + len(found)) % _PAGE)
    return os.fsdecode(found.split(b"\0", 1)[0])
