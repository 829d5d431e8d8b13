"""A line below the cursor that says what is going on while a program runs below hotlap.

The program writes to the same terminal, so the cursor stays where the program left it. What the
line leaves behind when the program's output reaches it is erased with the next words.
"""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager

ROOM = "\x1bD\x1b[A"
"""Down, scrolling if need be, and up again: now there is a line below."""
SAVE, BELOW, RESTORE = "\x1b7", "\x1b[B\r", "\x1b8"
ERASE = "\x1b[K"
DIM, PLAIN = "\x1b[2m", "\x1b[0m"


class Progress:
    """Says what is going on; silent unless `on`."""

    def __init__(self, *, on: bool) -> None:
        self._on = on
        self._said = False

    def __call__(self, words: str) -> None:
        """Write the words over the ones before."""
        width = shutil.get_terminal_size().columns - 1
        self._write(f"{DIM}{f'hotlap: {words}'[:width]}{PLAIN}")
        self._said = True

    def steps(self, done: int, of: int) -> None:
        """So many steps have been profiled; `of` is 0 where no number was asked for."""
        self(f"profiling step {done}" + (f" of {of}" if of >= done else ""))

    def clear(self) -> None:
        """Take the words away."""
        if self._said:
            self._write("")

    def _write(self, words: str) -> None:
        if self._on:
            sys.stderr.write(f"{ERASE}{ROOM}{SAVE}{BELOW}{words}{ERASE}{RESTORE}")
            sys.stderr.flush()


@contextmanager
def progress(*, quiet: bool) -> Iterator[Progress]:
    """Progress on stderr; none when quiet or piped."""
    said = Progress(on=not quiet and sys.stderr.isatty())
    try:
        yield said
    finally:
        said.clear()
