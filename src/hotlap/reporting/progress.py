"""A line below the cursor that says what is going on while a program runs below hotlap.

The program writes to the same terminal, so the cursor stays where the program left it. What the
line leaves behind when the program's output reaches it is erased with the next words.
"""

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from hotlap.core.repeated import repeated

ROOM = "\x1bD\x1b[A"
"""Down, scrolling if need be, and up again: now there is a line below."""
SAVE, BELOW, RESTORE = "\x1b7", "\x1b[B\r", "\x1b8"
ERASE = "\x1b[K"
DIM, PLAIN = "\x1b[2m", "\x1b[0m"
TICK_SECONDS = 1.0
LONG_SECONDS = 3
"""Words that stand for longer are followed by the time."""


class Progress:
    """Says what is going on; silent unless `on`."""

    def __init__(self, *, on: bool) -> None:
        self._on = on
        self._words = ""
        self._since = time.monotonic()
        self._first_step = 0.0
        self._lock = threading.Lock()

    def __call__(self, words: str) -> None:
        """Write the words over the ones before."""
        with self._lock:
            self._words, self._since = words, time.monotonic()
            self._draw(words)

    def steps(self, done: int, of: int, seconds: float = 0.0) -> None:
        """So many steps have been profiled; 0: no number `of` steps, or seconds, was asked for."""
        self._first_step = self._first_step or time.monotonic()
        spent = time.monotonic() - self._first_step
        steps = f"profiling step {done}" + (f" of at most {of}" if of >= done else "")
        self(steps + (f", {min(spent, seconds):.0f} s of at most {seconds:.0f} s" * bool(seconds)))

    def tick(self) -> None:
        """Add for how long the words have been standing."""
        with self._lock:
            seconds = int(time.monotonic() - self._since)
            if self._words and seconds >= LONG_SECONDS:
                self._draw(f"{self._words} ({seconds} s)")

    def clear(self) -> None:
        """Take the words away."""
        with self._lock:
            if self._words:
                self._write("")
            self._words = ""

    def _draw(self, words: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        self._write(f"{DIM}{f'hotlap: {words}'[:width]}{PLAIN}")

    def _write(self, words: str) -> None:
        if self._on:
            sys.stderr.write(f"{ERASE}{ROOM}{SAVE}{BELOW}{words}{ERASE}{RESTORE}")
            sys.stderr.flush()


@contextmanager
def progress(*, quiet: bool) -> Iterator[Progress]:
    """Progress on stderr; none when quiet or piped."""
    said = Progress(on=not quiet and sys.stderr.isatty())
    try:
        with repeated(said.tick, TICK_SECONDS):
            yield said
    finally:
        said.clear()
