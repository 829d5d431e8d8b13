"""What the replacements of a module's functions share: pickling, and errors that name own paths."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar


class Face:
    """Carries replacements as bound methods.

    A class that holds one does not bind it again (as with the built-in functions), and a
    pickled one names the module's function, so that the other side gets its own.
    """

    module: ClassVar[str] = "os"

    def __reduce__(self) -> tuple[object, ...]:
        return __import__, (self.module,)


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
