"""Run a function as soon as a module has been imported."""

import importlib.util
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Callback = Callable[[ModuleType], None]


def when_imported(name: str, callback: Callback) -> None:
    """Call `callback(module)` once `name` is imported; at once if it already is."""
    module = sys.modules.get(name)
    if module is not None:
        callback(module)
        return
    if not any(isinstance(finder, _Watch) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Watch())
    _pending.setdefault(name, []).append(callback)


_pending: dict[str, list[Callback]] = {}


class _Watch:
    """A finder that finds nothing itself: it wraps the loader that the others find."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in _pending:
            return None
        callbacks = _pending.pop(name)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            _pending[name] = callbacks
            return None
        _call_after(spec.loader, callbacks)
        return spec


def _call_after(loader: Any, callbacks: list[Callback]) -> None:
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        del loader.exec_module
        execute(module)
        for callback in callbacks:
            callback(module)

    loader.exec_module = exec_module
