"""Replace an attribute for a while: the one way anything in the user's process is changed."""

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_MISSING = object()


@contextmanager
def replaced(owner: Any, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """Set `owner.name = make(original)`; on exit put back exactly what was there.

    An attribute that `owner` inherits is deleted again rather than set, so that classes end up as
    they began. If somebody replaced it after us, theirs stays.
    """
    before = vars(owner).get(name, _MISSING) if hasattr(owner, "__dict__") else _MISSING
    ours = make(getattr(owner, name))
    setattr(owner, name, ours)
    try:
        yield
    finally:
        if vars(owner).get(name) is ours:
            _put_back(owner, name, before)


def _put_back(owner: Any, name: str, before: Any) -> None:
    if before is _MISSING:
        delattr(owner, name)
    else:
        setattr(owner, name, before)


@contextmanager
def assigned(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Assign a plain value through `setattr` (properties included) and assign the old one back."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def resolve(dotted: str) -> tuple[Any, str]:
    """Turn `torch.utils.data.DataLoader` into (its owner, its name).

    Raises:
        LookupError: no such module or attribute.
    """
    path, _, name = dotted.rpartition(".")
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            owner: Any = importlib.import_module(".".join(parts[:cut]))
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
