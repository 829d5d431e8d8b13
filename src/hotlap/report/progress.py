"""A few words at the right edge of the terminal's line while a program runs below hotlap.

The program writes to the same terminal: the cursor is put back where it was, and the words are
written over, never scrolled.
"""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SAVE, RESTORE = "\x1b7", "\x1b8"
DIM, PLAIN = "\x1b[2m", "\x1b[0m"


class Progress:
    """Says what is going on; silent unless `on`."""

    def __init__(self, *, on: bool) -> None:
        self._on = on
        self._width = 0

    def __call__(self, words: str) -> None:
        """Write the words over the ones before."""
        self._write(f"hotlap: {words}")

    def steps(self, done: int, of: int) -> None:
        """So many steps have been profiled; `of` is 0 where no number was asked for."""
        self(f"profiling step {done}" + (f" of {of}" if of >= done else ""))

    def clear(self) -> None:
        """Take the words away."""
        if self._width:
            self._write("")

    def _write(self, words: str) -> None:
        if not self._on:
            return
        columns = shutil.get_terminal_size().columns
        text = words[: columns - 1].rjust(max(self._width, len(words)))[-(columns - 1) :]
        self._width = len(words)
        sys.stderr.write(f"{SAVE}\x1b[{columns - len(text) + 1}G{DIM}{text}{PLAIN}{RESTORE}")
        sys.stderr.flush()


@contextmanager
def progress(*, quiet: bool) -> Iterator[Progress]:
    """Progress on stderr; none when quiet or piped."""
    said = Progress(on=not quiet and sys.stderr.isatty())
    try:
        yield said
    finally:
        said.clear()
