"""Packages that import a part when it is first asked for."""

import warnings
from collections.abc import Callable, Mapping
from importlib import import_module


def lazy(
    package: str, where: Mapping[str, str], renamed: Mapping[str, str] | None = None
) -> Callable[[str], object]:
    """Return the `__getattr__` of a package.

    Args:
        package: its name.
        where: the module of each public name; one that begins with "." is within the package.
        renamed: deprecated names, and what they are called now.
    """

    def find(name: str) -> object:
        known = name
        if renamed and name in renamed:
            known = renamed[name]
            words = f"{package}.{name} is deprecated: its name is {package}.{known}"
            warnings.warn(words, DeprecationWarning, stacklevel=2)
        if known not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(where[known], package), known)

    return find
