"""Which functions of `os`, `io` and `builtins` are replaced, by what, and how they come back."""

import builtins
import functools
import io
import os
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from hotlap.seam.guard.face import Face
from hotlap.seam.guard.listing import Listing
from hotlap.seam.guard.moving import Moving
from hotlap.seam.guard.opening import Descriptors, Files
from hotlap.seam.guard.overlay import Overlay
from hotlap.seam.guard.readers import Readers
from hotlap.seam.guard.writers import Writers

Table = dict[str, Callable[..., object]]
Pairs = list[tuple[Callable[..., object], Callable[..., object]]]

_LOOKING = ("access", "readlink", "statvfs", "pathconf", "getxattr", "listxattr")
_MAKING = ("mkdir", "mkfifo", "mknod")
_CHANGING = ("chmod", "chown", "lchown", "truncate", "utime", "setxattr", "removexattr")
# Left alone: they keep the real functions on purpose.
_PRIVATE = frozenset({"_io", "posix", "_frozen_importlib_external", "_pyio"})
# Functions captured where a look through module globals does not reach:
# (module, class, attribute).
_CAPTURED = (("glob", "_StringGlobber", "lstat"), ("glob", "_StringGlobber", "scandir"))


def tables(overlay: Overlay) -> dict[types.ModuleType, Table]:
    """For each module, its functions' replacements."""
    files = Files(overlay)
    return {
        builtins: {"open": files.open},
        io: {"open": files.open},
        os: _looking(overlay) | _changing(overlay) | {"open": Descriptors(overlay).open},
    }


def _looking(overlay: Overlay) -> Table:
    readers, listing = Readers(overlay), Listing(overlay)
    table: Table = {name: functools.partial(readers.look, name) for name in _LOOKING}
    for name in ("stat", "lstat", "chdir", "getcwd", "getcwdb"):
        table[name] = getattr(readers, name)
    return table | {
        "fchdir": readers.chdir,
        "listdir": listing.listdir,
        "scandir": listing.scandir,
    }


def _changing(overlay: Overlay) -> Table:
    writers = Writers(overlay)
    moving = Moving(overlay, writers)
    table: Table = {name: functools.partial(writers.make, name) for name in _MAKING}
    table |= {name: functools.partial(writers.change, name) for name in _CHANGING}
    return table | {
        "remove": writers.remove,
        "unlink": writers.remove,
        "rmdir": writers.rmdir,
        "symlink": writers.symlink,
        "rename": moving.rename,
        "replace": moving.rename,
        "link": moving.link,
    }


@contextmanager
def patched(overlay: Overlay) -> Iterator[None]:
    """Everything replaced, wherever it was already captured, until it is undone."""
    pairs = _pairs(overlay)
    back = [(new, old) for old, new in pairs]
    with _declared(pairs), _path_based_rmtree():
        _swap(pairs)
        try:
            yield
        finally:
            _swap(back)


def _pairs(overlay: Overlay) -> Pairs:
    return [
        (getattr(module, name), _named(name, replacement))
        for module, table in tables(overlay).items()
        for name, replacement in table.items()
        if hasattr(module, name)
    ]


def _named(name: str, do: Callable[..., object]) -> types.MethodType:
    """Make a bound method (see `Face`), also of what serves several functions."""
    if isinstance(do, types.MethodType):
        return do

    def call(_: Face, *args: object, **options: object) -> object:
        return do(*args, **options)

    call.__name__ = call.__qualname__ = name
    return types.MethodType(call, Face())


def _swap(pairs: Pairs) -> None:
    """Put the second of each pair wherever the first is held by name or as a default."""
    swaps = {id(old): (old, new) for old, new in pairs}
    for holder, name, value in list(_holders(swaps)):
        static = isinstance(vars(holder).get(name), staticmethod)
        new = swaps[id(value)][1]
        setattr(holder, name, staticmethod(new) if static else new)
    for function in _defaulting():
        held = function.__defaults__ or ()
        function.__defaults__ = tuple(swaps.get(id(it), (it, it))[1] for it in held)


def _defaulting() -> Iterator[types.FunctionType]:
    closer = getattr(sys.modules.get("tempfile"), "_TemporaryFileCloser", None)
    for name in ("close", "cleanup"):
        if hasattr(closer, name):
            yield getattr(closer, name)


def _holders(swaps: Mapping[int, object]) -> Iterator[tuple[object, str, object]]:
    for key, module in list(sys.modules.items()):
        if isinstance(module, types.ModuleType) and key not in _PRIVATE:
            for name, value in list(vars(module).items()):
                if id(value) in swaps:
                    yield module, name, value
    for key, owner, name in _CAPTURED:
        holder = getattr(sys.modules.get(key), owner, None)
        if holder is not None and hasattr(holder, name):
            yield holder, name, getattr(holder, name)


@contextmanager
def _declared(pairs: Pairs) -> Iterator[None]:
    """`os.supports_follow_symlinks` and its like name the replacements too.

    Not `supports_dir_fd`: shutil then removes trees by path, which the overlay sees.
    """
    added: list[tuple[set[Callable[..., Any]], Callable[..., object]]] = []
    for known in (os.supports_follow_symlinks, os.supports_fd, os.supports_effective_ids):
        for original, replacement in pairs:
            if original in known:
                added.append((known, replacement))
                known.add(replacement)
    try:
        yield
    finally:
        for known, replacement in added:
            known.discard(replacement)


@contextmanager
def _path_based_rmtree() -> Iterator[None]:
    shutil = sys.modules.get("shutil")
    before = getattr(shutil, "_use_fd_functions", None)
    if before is not None:
        shutil._use_fd_functions = False  # type: ignore[union-attr]
    try:
        yield
    finally:
        if before is not None:
            shutil._use_fd_functions = before  # type: ignore[union-attr]
