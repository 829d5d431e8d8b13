"""Sends the paths of `native_table` to where the overlay has them, in native code too."""

import functools
import os
import posix
import stat
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from hotlap.seam.guard.copying import copy_up
from hotlap.seam.guard.native_table import NATIVES, READ, WRITE, By, Native
from hotlap.seam.guard.opening import RealPlaces
from hotlap.seam.guard.overlay import Overlay, look
from hotlap.seam.hook import when_imported

_NO_FILES = frozenset({"", ":memory:"})
_WRITE_FLAGS = {WRITE: posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC}
_UPDATE_FLAGS = posix.O_RDWR | posix.O_CREAT
_HUGE = 1 << 26


@contextmanager
def natives(overlay: Overlay) -> Iterator[None]:
    """All native openers hooked, now or when their module is imported."""
    with ExitStack() as undo:
        active = [True]
        undo.callback(active.clear)
        for native in NATIVES:
            _watch(native.module, functools.partial(_hook, native, overlay, undo), active)
        _watch("numpy", functools.partial(_huge_memmaps, overlay, undo), active)
        _watch("tensorboard.compat", functools.partial(_stub_tensorflow, undo), active)
        yield


def _watch(name: str, do: Callable[[types.ModuleType], None], active: list[bool]) -> None:
    def imported(module: types.ModuleType) -> None:
        if active:
            do(module)

    when_imported(name, imported)


def _hook(native: Native, overlay: Overlay, undo: ExitStack, module: types.ModuleType) -> None:
    *owners, name = native.target.split(".")
    owner: Any = module
    for part in owners:
        owner = getattr(owner, part, None)
    original = getattr(owner, name, None)
    if original is None:
        return
    undo.callback(_put, owner, name, vars(owner).get(name, original))
    wrapped = _wrapped(original, native, overlay)
    is_static = isinstance(owner, type) and isinstance(
        vars(owner).get(name), staticmethod | classmethod
    )
    is_static = is_static or (isinstance(owner, type) and native.position == 0)
    _put(owner, name, staticmethod(wrapped) if is_static else wrapped)


def _wrapped(
    original: Callable[..., object], native: Native, overlay: Overlay
) -> Callable[..., object]:
    @functools.wraps(original, updated=())
    def call(*args: object, **options: object) -> object:
        args, options = _redirected(overlay, native, args, options)
        return original(*args, **options)

    return call


def _redirected(
    overlay: Overlay, native: Native, args: tuple[object, ...], options: dict[str, object]
) -> tuple[tuple[object, ...], dict[str, object]]:
    given = _argument(args, options, native.position, native.name, None)
    if not isinstance(given, str | bytes | os.PathLike):
        return args, options
    real = _place(overlay, given, _purpose(native.purpose, args, options))
    if native.name in options:
        return args, options | {native.name: real}
    at = native.position
    return (*args[:at], real, *args[at + 1 :]), options


def _purpose(purpose: str | By, args: tuple[object, ...], options: dict[str, object]) -> str:
    if isinstance(purpose, str):
        return purpose
    value = _argument(args, options, purpose.position, purpose.name, purpose.default)
    return purpose.choose(value)


def _argument(
    args: tuple[object, ...], options: dict[str, object], position: int, name: str, default: object
) -> object:
    return args[position] if position < len(args) else options.get(name, default)


def _place(overlay: Overlay, given: Any, purpose: str) -> object:
    text = os.fsdecode(given)
    if text in _NO_FILES or "://" in text:
        return given
    if text.startswith("file:"):
        path, mark, query = text[5:].partition("?")
        return f"file:{_place(overlay, path, purpose)}{mark}{query}"
    if purpose == READ:
        return overlay.read(given)
    return _for_writing(overlay, given, text, purpose)


def _for_writing(overlay: Overlay, given: object, text: str, purpose: str) -> object:
    target, straight = overlay.walk(text)
    entry = overlay.own(target)
    if overlay.roots.kept(target):
        return given if straight else target
    if entry is not None and stat.S_ISDIR(entry.st_mode):
        return _folder(overlay, target)
    flags = _WRITE_FLAGS.get(purpose, _UPDATE_FLAGS)
    try:
        return RealPlaces(overlay).place(text, flags)
    except FileNotFoundError:
        # Let it fail where it is told to write, unless that would not fail.
        parent = target.rpartition("/")[0] or "/"
        return given if look(parent) is None else overlay.mirror + target


def _folder(overlay: Overlay, path: str) -> str:
    """Bring up a database that is a folder, with its files."""
    real = copy_up(overlay, path)
    for name in posix.listdir(path):
        copy_up(overlay, f"{path}/{name}")
    return real


def _put(owner: object, name: str, value: object) -> None:
    setattr(owner, name, value)


def _huge_memmaps(overlay: Overlay, undo: ExitStack, numpy: types.ModuleType) -> None:
    """`np.memmap` opens for writing unless told not to; huge files are not copied for that.

    They are mapped copy-on-write instead: what is written is seen by this process only.
    """
    create = numpy.memmap.__new__

    @functools.wraps(create)
    def new(
        cls: type,
        filename: object,
        dtype: object = numpy.uint8,
        mode: str = "r+",
        *args: object,
        **kw: object,
    ) -> object:
        if mode in {"r+", "readwrite"} and _is_huge(overlay, filename):
            mode = "c"
        return create(cls, filename, dtype, mode, *args, **kw)

    undo.callback(_put, numpy.memmap, "__new__", staticmethod(create))
    numpy.memmap.__new__ = staticmethod(new)


def _is_huge(overlay: Overlay, filename: object) -> bool:
    if not isinstance(filename, str | os.PathLike):
        return False
    target = overlay.canonical(os.fsdecode(filename))
    entry = overlay.own(target)
    if entry is None or overlay.roots.kept(target) or overlay.where(target) != target:
        return False
    return entry.st_size > _HUGE


def _stub_tensorflow(undo: ExitStack, compat: types.ModuleType) -> None:
    """TensorBoard's own Python file layer, even where TensorFlow's native one is there."""
    name = "tensorboard.compat.notf"
    if name not in sys.modules:
        sys.modules[name] = types.ModuleType(name)
        undo.callback(sys.modules.pop, name, None)
        compat.notf = sys.modules[name]  # type: ignore[attr-defined]
