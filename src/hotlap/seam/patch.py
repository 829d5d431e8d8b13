"""Replace an attribute for a while: the one way anything in the user's process is changed."""

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import update_wrapper
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, TypeVar

T = TypeVar("T")
Original = TypeVar("Original", bound=Callable[..., object])
Maker = Callable[[Callable[..., object]], object]
"""Makes the replacement of a function."""
_MISSING = object()


@dataclass(eq=False)
class Patch:
    """One attribute of `owner` that can be replaced, put back, and replaced again.

    Whatever else may have set the attribute since stays: only our own object is ever taken out.
    """

    owner: object
    name: str
    ours: object
    before: object

    @property
    def active(self) -> bool:
        """Whether the attribute is ours now."""
        return vars(self.owner).get(self.name, _MISSING) is self.ours

    def put_in(self) -> None:
        """Replace the attribute, if it is what it was before."""
        if vars(self.owner).get(self.name, _MISSING) is self.before:
            setattr(self.owner, self.name, self.ours)

    def take_out(self) -> None:
        """Put back exactly what was there, if the attribute is ours.

        What the owner had inherited is deleted again, so that classes end up as they began.
        """
        if not self.active:
            return
        if self.before is _MISSING:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self.before)


patches: list[Patch] = []
"""All replacements in this process, the latest last."""


@contextmanager
def replaced(owner: object, name: str, make: Callable[[Original], object]) -> Iterator[Patch]:
    """Set `owner.name = make(original)`; on exit put back exactly what was there.

    The replacement keeps the original's name, documentation, signature and source, can be pickled
    by reference, and TorchScript compiles the original in its place. If somebody replaced the
    attribute after us, theirs stays.
    """
    before = vars(owner).get(name, _MISSING)
    original = getattr(owner, name)
    ours = make(original)
    if isinstance(ours, FunctionType):
        if name == "forward" and isinstance(original, FunctionType):
            ours = with_globals_of(original, ours)
        _disguise(ours, original, owner, name)
    patch = Patch(owner, name, ours, before)
    patch.put_in()
    patches.append(patch)
    try:
        yield patch
    finally:
        patch.take_out()
        patches.remove(patch)


def read_once(
    args: tuple[object, ...], kwargs: dict[str, object]
) -> tuple[tuple[object, ...], dict[str, object]]:
    """The arguments of a call, iterators among them as lists, which looking does not use up."""
    return tuple(map(listed, args)), {name: listed(value) for name, value in kwargs.items()}


def listed(argument: T) -> T:
    """An iterator as a list, anything else as it is."""
    return list(argument) if isinstance(argument, Iterator) else argument  # type: ignore[return-value]


def with_globals_of(original: FunctionType, ours: FunctionType) -> FunctionType:
    """The same function, whose globals also hold what the original's source names.

    TorchScript compiles a module's `forward` from the original's source and looks its names up in
    the globals of the function that it is handed.
    """
    names = {**original.__globals__, **ours.__globals__}
    same = FunctionType(ours.__code__, names, ours.__name__, ours.__defaults__, ours.__closure__)
    same.__kwdefaults__ = ours.__kwdefaults__
    return update_wrapper(same, ours)  # type: ignore[return-value]


def _disguise(
    ours: FunctionType, original: Callable[..., object], owner: object, name: str
) -> None:
    """Make the replacement look like the original to `inspect`, `pickle` and TorchScript."""
    if getattr(ours, "__wrapped__", None) is not original:
        update_wrapper(ours, original)
    if isinstance(owner, type):  # pickle goes by where it is, whatever class has defined it
        ours.__module__, ours.__qualname__ = owner.__module__, f"{owner.__qualname__}.{name}"
    elif isinstance(owner, ModuleType):
        ours.__module__, ours.__qualname__ = owner.__name__, name
    ours.__prepare_scriptable__ = lambda: original  # type: ignore[attr-defined]
    if isinstance(owner, ModuleType):
        _register_builtin(ours, original, owner)


def _register_builtin(ours: FunctionType, original: object, owner: ModuleType) -> None:
    """Let TorchScript know the replacement of a built-in operator by the operator's name.

    TorchScript finds operators by the identity of functions, in a table that it builds from this
    list, and from what modules hold at that moment, when it first needs it.
    """
    builtins = sys.modules.get("torch.jit._builtins")
    if builtins is None:
        return
    operator = next((op for known, op in builtins._builtin_ops if known is original), None)
    among = owner in builtins._modules_containing_builtins
    if operator is None and among and isinstance(original, BuiltinFunctionType):
        operator = f"aten::{original.__name__}"
    if operator is None:
        return
    for function in (ours, original):  # the list also keeps both alive, whose ids the table holds
        builtins._builtin_ops.append((function, operator))
        if builtins._builtin_table is not None:
            builtins._builtin_table[id(function)] = operator


@contextmanager
def assigned(owner: object, name: str, value: object) -> Iterator[None]:
    """Assign a plain value through `setattr` (properties included) and assign the old one back.

    A value that the program has assigned since stays.
    """
    before = getattr(owner, name)
    setattr(owner, name, value)
    taken = getattr(owner, name)
    try:
        yield
    finally:
        if getattr(owner, name) == taken:
            setattr(owner, name, before)


def resolve(dotted: str) -> tuple[object, str]:
    """Turn `torch.utils.data.DataLoader` into (its owner, its name).

    Raises:
        LookupError: no such module or attribute.
    """
    path, _, name = dotted.rpartition(".")
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            owner: object = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            owner = getattr(owner, part)
        return owner, name
    raise LookupError(f"{dotted} is not there to be changed")


def load(reference: str) -> Any:
    """Load `module:name`."""
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)
