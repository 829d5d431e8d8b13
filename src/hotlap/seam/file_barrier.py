"""Calls of this process that could see a file which is still being written, caught beforehand.

Python announces most of them as audit events. The rest (`os.stat`, `os.lstat`, `os.access`, and
multiprocessing's start of processes) are wrapped. What code in C opens by itself goes unseen.
"""

import multiprocessing.util
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from typing import Any

from hotlap.seam.patch import replaced

_STARTS = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "pty.spawn"}
_FILES = {
    "open", "os.truncate", "os.chmod", "os.chown", "os.utime", "os.setxattr", "os.getxattr",
    "sqlite3.connect",
}  # fmt: skip
_LISTINGS = {"os.listdir", "os.scandir"}
_TREES = {
    "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "shutil.copyfile",
    "shutil.copymode", "shutil.copystat", "shutil.copytree", "shutil.move", "shutil.rmtree",
    "shutil.make_archive",
}  # fmt: skip


class Watched:
    """The files that are being written, and what to call before the program could see one.

    `paths` gives their real paths; `wait` returns when they are whole.
    """

    def __init__(self, paths: Callable[[], list[str]], wait: Callable[[], None]) -> None:
        self._paths = paths
        self._wait = wait
        self._pid = os.getpid()
        self._thread = threading.local()

    @contextmanager
    def unwatched(self) -> Iterator[None]:
        """What this thread does to files meanwhile is the write itself."""
        self._thread.writes = True
        try:
            yield
        finally:
            self._thread.writes = False

    def before(self, event: str, *names: object) -> None:
        """Wait, if one of these names leads to a file that is being written."""
        paths = self._paths()
        if not paths or getattr(self._thread, "writes", False):
            return
        with self.unwatched():
            sees = any(_sees(event, name, path) for name in names for path in paths)
        if sees:
            self._wait()

    def before_start(self, *, ends: bool = False) -> None:
        """Wait: another program begins, and may look at any file, or this one `ends`."""
        forked = self._pid != os.getpid()
        if self._paths() and not getattr(self._thread, "writes", False) and not (ends and forked):
            self._wait()


def _sees(event: str, name: Any, path: str) -> bool:
    """Whether a call on `name` sees the file at `path`: by name or link, or from a folder above."""
    if isinstance(name, int):
        name = f"/proc/self/fd/{name}"
    try:
        given = os.fsdecode("." if name is None else name)
    except TypeError:
        return False
    if os.path.basename(given) == os.path.basename(path):
        return True
    real = os.path.realpath(given)
    if event in _TREES:
        return (path + os.sep).startswith(real + os.sep)
    return real == (os.path.dirname(path) if event in _LISTINGS else path)


_watchers: list[Watched] = []
_hooked: list[bool] = []


@contextmanager
def watching(watched: Watched) -> Iterator[None]:
    """Announce looks at files to `watched`; undone on exit, but for an idle audit hook."""
    if not _hooked:
        _hooked.append(True)
        sys.addaudithook(partial(_audit, _watchers))  # Python has no way to take one out again
    with ExitStack() as stack:
        for name in ("stat", "lstat", "access"):
            stack.enter_context(replaced(os, name, lambda f: _before_look(f, watched)))
        spawn = (multiprocessing.util, "spawnv_passfds")
        stack.enter_context(replaced(*spawn, lambda f: _before_start(f, watched)))
        stack.enter_context(replaced(os, "_exit", lambda f: _before_start(f, watched, ends=True)))
        _watchers.append(watched)
        stack.callback(_watchers.remove, watched)
        yield


def _audit(watchers: list[Watched], event: str, args: tuple[object, ...]) -> None:
    """Module names are None while the interpreter ends, which it hears as well."""
    for watched in watchers:
        if event in _TREES:
            watched.before(event, *args[:2])
        elif event in _FILES or event in _LISTINGS:
            watched.before(event, args[0])
        elif event in _STARTS:
            watched.before_start()


def _before_look(original: Callable[..., object], watched: Watched) -> object:
    @wraps(original)
    def look(*args: object, **kwargs: object) -> object:
        watched.before("open", args[0] if args else kwargs.get("path"))
        return original(*args, **kwargs)

    return look


def _before_start(
    original: Callable[..., object], watched: Watched, *, ends: bool = False
) -> object:
    @wraps(original)
    def start(*args: object, **kwargs: object) -> object:
        watched.before_start(ends=ends)
        return original(*args, **kwargs)

    return start
