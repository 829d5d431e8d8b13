"""What the replacements of a module's functions have in common."""

from typing import ClassVar


class Face:
    """Carries replacements as bound methods.

    A class that holds one does not bind it again (as with the built-in functions), and a
    pickled one names the module's function, so that the other side gets its own.
    """

    module: ClassVar[str] = "os"

    def __reduce__(self) -> tuple[object, ...]:
        return __import__, (self.module,)
