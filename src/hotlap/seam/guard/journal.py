"""What the processes of one trial have changed, in one append-only file they all share.

A record hides a path of the user (`-path`) or says that a directory or link was made (`+`).
Records are never taken back, so no lock is needed: a path that comes back lies in the mirror,
which is looked at first. A mapped counter says "something was added" without a system call.
"""

import mmap
import posix

_APPEND = posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT | posix.O_CLOEXEC
_WIDTH = 8


class Journal:
    """The changes of all processes of this trial, as this process has seen them."""

    def __init__(self, scratch: str) -> None:
        self._path = f"{scratch}/changes"
        self._offset = 0
        self.gone: frozenset[str] = frozenset()
        self.thinned: frozenset[str] = frozenset()
        self.counter = _shared_counter(f"{scratch}/counter")
        self.seen = bytes(_WIDTH)

    @property
    def empty(self) -> bool:
        """Nothing was changed yet, by any process."""
        return self._offset == 0

    def refresh(self) -> None:
        """Take in what was added since the last look."""
        seen = self.counter[:_WIDTH]
        self._absorb()
        self.seen = seen

    def hides(self, path: str) -> bool:
        """Whether the user's own file at `path`, or a folder above it, was removed."""
        gone = self.gone
        while gone and path:
            if path in gone:
                return True
            path = path[: path.rfind("/")]
        return False

    def hide(self, path: str) -> None:
        """Record that the user's own `path` is not to be seen any more."""
        self._append(f"-{path}")

    def grew(self) -> None:
        """Record that what lies where has changed: a directory or a link came or went."""
        self._append("+")

    def _append(self, record: str) -> None:
        fd = posix.open(self._path, _APPEND, 0o600)
        try:
            posix.write(fd, record.encode("utf-8", "surrogateescape") + b"\0")
            length = posix.fstat(fd).st_size
        finally:
            posix.close(fd)
        self.counter[:_WIDTH] = length.to_bytes(_WIDTH, "little")
        # Not `refresh`: whoever remembers places must notice this process's changes too.
        self._absorb()

    def _absorb(self) -> None:
        removed = [record[1:] for record in self._added() if record.startswith("-")]
        if removed:
            self.gone |= set(removed)
            self.thinned |= {path.rpartition("/")[0] or "/" for path in removed}

    def _added(self) -> list[str]:
        data = _tail(self._path, self._offset)
        whole = data.rfind(b"\0") + 1
        self._offset += whole
        return data[:whole].decode("utf-8", "surrogateescape").split("\0")[:-1]


def _tail(path: str, offset: int) -> bytes:
    try:
        fd = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    try:
        return posix.pread(fd, max(0, posix.fstat(fd).st_size - offset), offset)
    finally:
        posix.close(fd)


def _shared_counter(path: str) -> mmap.mmap:
    fd = posix.open(path, posix.O_RDWR | posix.O_CREAT | posix.O_CLOEXEC, 0o600)
    try:
        if posix.fstat(fd).st_size < _WIDTH:
            posix.ftruncate(fd, _WIDTH)
        return mmap.mmap(fd, _WIDTH)
    finally:
        posix.close(fd)
