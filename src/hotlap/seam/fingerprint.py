"""What an object holds, as a flat table that a later table can be compared with.

Worker processes have a copy of the dataset. Before they serve another epoch, the table says
whether the original, or their copy, has changed since they began. Values, containers, arrays,
random generators, attributes, closures, and the globals that the program's own functions name are
followed. What cannot be read in full is refused: `UnreadableError` says why.
"""

import ctypes
import functools
import io
import itertools
import marshal
import os
import pickle
import random
import sys
import sysconfig
import types
import zlib
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import torch

MOST_BYTES = 1 << 27
"""Bytes of arrays that are read: about 0.1 s; starting a worker takes about as long."""
MOST_OBJECTS = 20_000
SCALARS = {int, float, complex, bool, str, bytes, type(None)}
SEQUENCES = (list, tuple, deque, set, frozenset)
MAPPINGS = (dict, OrderedDict, defaultdict, types.MappingProxyType)
BY_IDENTITY = ("multiprocessing", "logging", "_thread", "threading")
"""Shared with the workers or without a say in the samples."""
HANDLE = "handle"
Table = dict[str, object]


class UnreadableError(Exception):
    """An object's state cannot be compared; the message says why."""


def fingerprint(value: object) -> Table:
    """The state of an object: digests by the path of attributes.

    Raises:
        UnreadableError: it holds too much, or something whose state cannot be read.
    """
    walk = _Walk()
    walk.visit("", value)
    return walk.table


def difference(before: Table, after: Table) -> str:
    """The path of a change; empty where there is none.

    A handle (file, database) in the place of nothing is no change: it is opened at the first read.
    """
    for path in before | after:
        same = path in before and path in after and before[path] == after[path]
        if not same and not _opened(path, before, after):
            return path.strip(".") or "itself"
    return ""


def _opened(path: str, before: Table, after: Table) -> bool:
    parts = path.split(".")
    for count in range(1, len(parts) + 1):
        prefix = ".".join(parts[:count])
        if before.get(prefix) is None:
            return bool(after.get(prefix) == HANDLE)
    return False


class _Walk:
    def __init__(self) -> None:
        self.table: Table = {}
        self._seen: dict[int, object] = {}  # holds what it has seen, so that no id comes twice
        self._bytes = 0

    def visit(self, path: str, value: object) -> None:
        """Enter a value, and what it holds, into the table."""
        if type(value) in SCALARS:
            self.table[path] = value if value is None else self._digest(_dump(value))
            return
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if len(self._seen) > MOST_OBJECTS:
            raise UnreadableError(f"it holds more than {MOST_OBJECTS} objects")
        if type(value) in SEQUENCES and isinstance(value, SEQUENCES):
            self._sequence(path, value)
        elif type(value) in MAPPINGS and isinstance(value, MAPPINGS):
            self._mapping(path, value)
        else:
            visits = (visit for kinds, visit in _VISITS if isinstance(value, kinds))
            next(visits, _Walk._object)(self, path, value)

    def _sequence(self, path: str, value: Collection[object]) -> None:
        if _plain(value):
            self.table[path] = self._digest(_dump(value))
            return
        self.table[path] = (type(value).__name__, len(value))
        for index, item in enumerate(value):
            self.visit(f"{path}.{index}", item)

    def _mapping(self, path: str, value: Mapping[object, object]) -> None:
        self._sequence(f"{path}.keys", list(value.keys()))
        self.table[path] = type(value).__name__
        if _plain(value.values()):
            self.table[f"{path}.values"] = self._digest(_dump(list(value.values())))
            return
        for index, item in enumerate(value.values()):
            self.visit(f"{path}.{index}", item)

    def _tensor(self, path: str, value: torch.Tensor) -> None:
        about = (str(value.dtype), tuple(value.shape), str(value.device))
        if value.layout is not torch.strided or value.is_quantized:
            raise UnreadableError(f"{_name(path)} is a tensor of another layout")
        shared = value.is_shared()  # type: ignore[no-untyped-call]
        if shared or value.device.type != "cpu":
            self.table[path] = (*about, value.data_ptr(), value._version)
            return
        self.spend(value.nbytes, path)
        flat = value.detach().contiguous()
        content = (ctypes.c_char * flat.nbytes).from_address(flat.data_ptr() or id(flat))
        self.table[path] = (*about, zlib.crc32(content))

    def _array(self, path: str, value: Any) -> None:
        about = (str(value.dtype), value.shape)
        if value.dtype.hasobject:
            self._sequence(path, value.ravel().tolist())
        elif type(value).__name__ == "memmap" and not value.flags.writeable:
            self.table[path] = (*about, value.ctypes.data)
        else:
            self.spend(value.nbytes, path)
            self.table[path] = (*about, zlib.crc32(value.tobytes()))

    def _function(self, path: str, value: types.FunctionType) -> None:
        self.table[path] = f"{value.__module__}.{value.__qualname__}"
        if not _users(value.__module__):
            return
        self.table[f"{path}.code"] = self._digest(marshal.dumps(value.__code__, 2))
        for name in ("__defaults__", "__kwdefaults__"):
            self.visit(f"{path}.{name}", getattr(value, name))
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            self.visit(f"{path}.{name}", _content(cell))
        for name in _names(value.__code__):
            if name in value.__globals__:
                self.visit(f"{path}.global {name}", value.__globals__[name])

    def _method(self, path: str, value: types.MethodType) -> None:
        self.visit(f"{path}.self", value.__self__)
        self.visit(f"{path}.function", value.__func__)

    def _partial(self, path: str, value: functools.partial[object]) -> None:
        self.visit(path, (value.func, value.args, value.keywords))

    def _class(self, path: str, value: type) -> None:
        self.table[path] = f"{value.__module__}.{value.__qualname__}"
        for cls in value.__mro__:
            if not _users(cls.__module__):
                continue
            for name, item in vars(cls).items():
                if isinstance(item, property):
                    item = item.fget  # noqa: PLW2901
                item = getattr(item, "__func__", item)  # noqa: PLW2901
                if isinstance(item, types.FunctionType) or not name.startswith("__"):
                    self.visit(f"{path}.{name}", item)

    def _named(self, path: str, value: object) -> None:
        self.table[path] = getattr(value, "__name__", type(value).__name__)

    def _random(self, path: str, value: random.Random | torch.Generator) -> None:
        state = value.getstate() if isinstance(value, random.Random) else value.get_state()
        self.visit(path, state)

    def _object(self, path: str, value: object) -> None:
        kind = type(value)
        if kind.__module__.partition(".")[0] in BY_IDENTITY:
            self.table[path] = id(value)
            return
        if kind.__module__.startswith("numpy"):
            self._of_numpy(path, value)
            return
        slots = [n for c in kind.__mro__ for n in _listed(vars(c).get("__slots__", ()))]
        if hasattr(value, "__dict__") or slots:
            self._attributes(path, value, slots)
        else:
            self.table[path] = self._pickled(value)

    def _attributes(self, path: str, value: object, slots: list[str]) -> None:
        handle = not _users(type(value).__module__) and _unpicklable(value)
        self.table[path] = HANDLE if handle else type(value).__qualname__
        self.visit(f"{path}.class", type(value))
        for name in slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                self.visit(f"{path}.{name}", getattr(value, name))
        for name, item in getattr(value, "__dict__", {}).items():
            self.visit(f"{path}.{name}", item)
        if isinstance(value, MAPPINGS):
            self._mapping(f"{path}.items", value)
        elif isinstance(value, SEQUENCES):
            self._sequence(f"{path}.items", value)

    def _of_numpy(self, path: str, value: object) -> None:
        if hasattr(value, "__array_interface__"):
            self._array(path, value)
        elif hasattr(value, "bit_generator"):
            self.visit(path, value.bit_generator.state)
        elif hasattr(value, "get_state"):
            self.visit(path, value.get_state())
        else:
            self.table[path] = self._pickled(value)

    def _pickled(self, value: object) -> object:
        sink = _Sink(self)
        try:
            pickle.Pickler(sink, pickle.HIGHEST_PROTOCOL).dump(value)
        except UnreadableError:
            raise
        except Exception:
            return HANDLE
        return sink.digest

    def _digest(self, content: bytes) -> int:
        return zlib.crc32(content) | len(content) << 32

    def spend(self, count: int, path: str) -> None:
        """Count bytes that are read.

        Raises:
            UnreadableError: more than the limit.
        """
        self._bytes += count
        if self._bytes > MOST_BYTES:
            raise UnreadableError(f"{_name(path)} is too large to compare at each epoch")


class _Sink(io.RawIOBase):
    """Takes a pickle's bytes, and keeps their checksum."""

    def __init__(self, walk: _Walk) -> None:
        super().__init__()
        self._walk = walk
        self.digest = 0

    def write(self, content: Any) -> int:
        """Add to the checksum."""
        self._walk.spend(len(content), "an object")
        self.digest = zlib.crc32(content, self.digest)
        return len(content)


_VISITS: tuple[tuple[type | tuple[type, ...], Callable[[_Walk, str, Any], None]], ...] = (
    (torch.Tensor, _Walk._tensor),
    (types.FunctionType, _Walk._function),
    (types.MethodType, _Walk._method),
    (functools.partial, _Walk._partial),
    (type, _Walk._class),
    ((types.ModuleType, types.BuiltinFunctionType, types.CodeType), _Walk._named),
    ((random.Random, torch.Generator), _Walk._random),
)


def _dump(value: Any) -> bytes:
    kept = value if type(value) in SCALARS or type(value) in (list, tuple) else list(value)
    return marshal.dumps(kept, 2)  # version 2: the same bytes whatever else refers to the parts


def _plain(values: Iterable[Any]) -> bool:
    """Whether these are scalars, or tuples of scalars such as (path, class)."""
    kinds = set(map(type, values))
    if kinds <= SCALARS:
        return True
    return kinds == {tuple} and set(map(type, itertools.chain.from_iterable(values))) <= SCALARS


def _content(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _names(code: types.CodeType) -> list[str]:
    inner = (part for part in code.co_consts if isinstance(part, types.CodeType))
    return [*code.co_names, *(name for part in inner for name in _names(part))]


def _listed(slots: str | Iterable[str]) -> list[str]:
    return [slots] if isinstance(slots, str) else list(slots)


def _unpicklable(value: object) -> bool:
    """Whether it is a handle: an object that says itself that it cannot be copied."""
    try:
        value.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    except Exception:
        return True
    return any(isinstance(v, io.IOBase) for v in getattr(value, "__dict__", {}).values())


_LIBRARIES = tuple(
    os.path.realpath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "purelib", "platlib")
)


@functools.cache
def _users(module: str | None) -> bool:
    """Whether a module is the program's own: neither Python's nor an installed package."""
    file = getattr(sys.modules.get(module or ""), "__file__", None)
    if module == "__main__":
        return True
    return file is not None and not os.path.realpath(file).startswith(_LIBRARIES)


def _name(path: str) -> str:
    return path.strip(".") or "it"
