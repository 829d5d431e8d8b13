"""Which files are opened for reading while a sample is read."""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from hotlap.seam.patch import replaced

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
NATIVE = (("cv2", "imread"), ("torchvision.io", "read_file"), ("torchvision.io", "read_image"))
"""Readers that open a path themselves, which Python does not hear of."""


class _Hook:
    """An audit hook cannot be removed: there is one, which does nothing while nobody listens."""

    listening: list[str] | None = None
    added = False


@contextmanager
def opened() -> Iterator[list[str]]:
    """Give a list that fills with the absolute paths opened for reading, in order."""
    found: list[str] = []
    with ExitStack() as stack:
        for module, name in NATIVE:
            if name in vars(sys.modules.get(module, os)):
                stack.enter_context(
                    replaced(sys.modules[module], name, lambda f: _noting(f, found))
                )
        _Hook.listening = found
        if not _Hook.added:
            _Hook.added = True
            sys.addaudithook(_hear)
        try:
            yield found
        finally:
            _Hook.listening = None


def _hear(event: str, args: tuple[Any, ...]) -> None:
    if event != "open" or _Hook.listening is None:
        return
    if not (isinstance(args[2], int) and args[2] & WRITES):
        _note(args[0], _Hook.listening)


def _noting(original: Any, found: list[str]) -> Any:
    def read(path: Any, *args: Any, **kwargs: Any) -> Any:
        before = len(found)
        result = original(path, *args, **kwargs)
        if len(found) == before:
            _note(path, found)
        return result

    return read


def _note(path: Any, found: list[str]) -> None:
    with suppress(TypeError, ValueError):
        found.append(os.path.abspath(os.fsdecode(path)))
