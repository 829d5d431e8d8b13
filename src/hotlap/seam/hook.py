"""Run a function when a module has been imported, however the import comes about.

A finder at the front of `sys.meta_path` finds nothing itself. Each time it is asked for a watched
module it lets the finders behind it look, and has the loader that they return run the callbacks
after the module's code. A look-up that is not followed by an import (`importlib.util.find_spec`)
therefore uses nothing up, and lazy imports, `importlib.reload`, zip files and C's
`PyImport_ImportModule` need no case of their own. Where another finder stands in front and loads
the module past this one, the next import of anything notices it.
"""

import importlib.abc
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from importlib.util import _LazyModule  # type: ignore[attr-defined]
from types import ModuleType
from typing import Any

Callback = Callable[[ModuleType], None]


class _Watch:
    """A module that is waited for: what to call, and the module objects it was called with."""

    def __init__(self) -> None:
        self.callbacks: list[Callback] = []
        self.seen: list[ModuleType] = []

    def imported(self, module: ModuleType) -> None:
        """Run the callbacks, once for each module object: a reload does not run them again."""
        if any(module is known for known in self.seen):
            return
        self.seen.append(module)
        for callback in tuple(self.callbacks):
            _call(callback, module)


_watches: dict[str, _Watch] = {}
_missing: set[str] = set()
"""Watched modules that have not been imported yet."""
_loading: set[str] = set()
_looking = threading.local()


def when_imported(name: str, callback: Callback) -> None:
    """Call `callback(module)` once `name` has been imported; at once if it already is."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    watch = _watches.setdefault(name, _Watch())
    watch.callbacks.append(callback)
    module = _complete(name)
    if module is None:
        _missing.add(name)
    else:
        watch.seen.append(module)
        _call(callback, module)


def _call(callback: Callback, module: ModuleType) -> None:
    """An import of the user's must succeed, whatever goes wrong here."""
    try:
        callback(module)
    except Exception as error:
        print(f"hotlap: could not prepare {module.__name__}: {error!r}", file=sys.stderr)


def _complete(name: str) -> ModuleType | None:
    """The module, if its code has run to its end; one that is imported lazily is not ready."""
    module = sys.modules.get(name)
    if module is None or name in _loading or type(module) is _LazyModule:
        return None
    spec = getattr(module, "__spec__", None)
    return None if getattr(spec, "_initializing", False) else module


class _Finder(importlib.abc.MetaPathFinder):
    """Stands first on `sys.meta_path`."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the finders behind this one find, with the callbacks attached to its loader."""
        for passed in _missing & sys.modules.keys():
            _catch_up(passed)
        names: set[str] = _looking.__dict__.setdefault("names", set())
        if name not in _watches or name in names:
            return None
        names.add(name)
        try:
            spec = _found_behind(self, name, path, target)
        finally:
            names.discard(name)
        if spec is not None and spec.loader is not None:
            _attach(spec.loader)
        return spec


def _catch_up(name: str) -> None:
    """Notice a watched module that was loaded past the finder."""
    module = _complete(name)
    if module is not None:
        _missing.discard(name)
        _watches[name].imported(module)


def _found_behind(finder: object, *request: object) -> ModuleSpec | None:
    finders = list(sys.meta_path)
    behind = finders[finders.index(finder) + 1 :] if finder in finders else finders
    for other in behind:
        look = getattr(other, "find_spec", None)
        spec: ModuleSpec | None = look(*request) if look is not None else None
        if spec is not None:
            return spec
    return None


def _attach(loader: object) -> None:
    """Have the loader report the watched module that it runs.

    The method is set on the loader object, so that its type stays what other tools look for. One
    loader may serve many modules (that of a zip file) and be asked for one of them many times.
    """
    method = "exec_module" if hasattr(loader, "exec_module") else "load_module"
    run = getattr(loader, method, None)
    if run is None or isinstance(run, _Reporting) or isinstance(loader, type):
        return
    with suppress(AttributeError, TypeError):  # a loader without a __dict__: caught up with later
        setattr(loader, method, _Reporting(run, loader, method))


class _Reporting:
    """A loader's own method; the callbacks run behind it."""

    def __init__(self, run: Callable[..., object], loader: object, method: str) -> None:
        self._run = run
        self._loader = loader
        self._method = method

    def __call__(self, module: Any) -> object:
        name = module if isinstance(module, str) else module.__name__
        _loading.add(name)
        try:
            result = self._run(module)
        finally:
            _loading.discard(name)
        if name in _watches:
            with suppress(AttributeError):
                delattr(self._loader, self._method)
            _missing.discard(name)
            _watches[name].imported(sys.modules.get(name, module))
        return result
