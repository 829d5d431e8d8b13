"""Errors name the path that the script gave, not the one in the mirror."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def naming(path: object, other: object = None) -> Iterator[None]:
    """Put the script's own names into an OSError that passes."""
    try:
        yield
    except OSError as error:
        error.filename = path
        if other is not None:
            error.filename2 = other
        raise


def need(holds: bool, code: str, path: str) -> None:
    """Raise the OSError that the kernel would, unless the condition holds."""
    if not holds:
        number = getattr(errno, code)
        raise OSError(number, os.strerror(number), path)
