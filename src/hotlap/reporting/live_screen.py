"""A long verb while it runs: a live screen in a terminal, plain lines in a pipe."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from hotlap.core.amounts import duration
from hotlap.core.repeated import repeated
from hotlap.reporting.words import shortened

SILENCE_SECONDS = 15.0
RESERVED_LINES = 5


class LiveScreen:
    """Title, time, what is known so far, and what is going on; silent unless `verbose`.

    `budget`: seconds that the verb may take; 0: no bound.
    """

    def __init__(
        self, out: Console, title: str, *, budget: float = 0.0, verbose: bool = True
    ) -> None:
        self._out, self._title, self._budget, self._verbose = out, title, budget, verbose
        self._begin = self._spoke = time.monotonic()
        self._now = self._best = ""
        self._rows: list[str] = []
        self._live: Live | None = None

    @contextmanager
    def showing(self) -> Iterator[None]:
        """Draw for as long as the context is open; plain lines where there is no terminal."""
        self._begin = self._spoke = time.monotonic()
        with ExitStack() as stack:
            stack.enter_context(repeated(self._watch, min(0.5, SILENCE_SECONDS)))
            if self._verbose and self._out.is_terminal:
                self._live = stack.enter_context(
                    Live(
                        get_renderable=self._draw, console=self._out, refresh_per_second=4,
                        transient=True,
                    )
                )  # fmt: skip
            yield

    def stage(self, text: str) -> None:
        """A new stage began."""
        self._now = text
        self._say(text)

    def now(self, text: str) -> None:
        """The stage goes on: what is drawn, and said only where a pipe was silent for long."""
        self._now = text

    def row(self, text: str, best: str = "") -> None:
        """Something is known; `best` so far, if that is known now."""
        self._best = best or self._best
        self._rows.append(text)
        self._say(text)

    def _say(self, text: str) -> None:
        self._spoke = time.monotonic()
        if self._verbose and not self._out.is_terminal:
            self._out.print(Text(f"hotlap: {text}"), soft_wrap=True)

    def _watch(self) -> None:
        self._tick()
        if time.monotonic() - self._spoke > SILENCE_SECONDS:
            self._say(f"{self._elapsed()}: {self._current()}")

    def _tick(self) -> None:
        """Called twice a second while the screen is shown."""

    def _current(self) -> str:
        """What is going on."""
        return self._now

    def _elapsed(self) -> str:
        elapsed = duration(float(max(1, round(time.monotonic() - self._begin))))
        return f"{elapsed} of {duration(self._budget)}" if self._budget else elapsed

    def _draw(self) -> RenderableType:
        return Text("\n").join(fitted(line, self._out.width) for line in self._lines())

    def _lines(self) -> list[Text]:
        """The screen from top to bottom; what is too long for the terminal is cut."""
        best = f"   best so far {self._best}" if self._best else ""
        most = max(1, self._out.height - RESERVED_LINES)
        return [
            Text(self._title, "bold"),
            Text(f"{self._elapsed()}{best}"),
            *(Text(f"  {row}", "dim") for row in self._rows[-most:]),
            Text(self._now, "bold cyan"),
        ]


def fitted(line: Text, width: int) -> Text:
    """The line within `width` columns, in its style."""
    found = shortened(line.plain, width)
    found.stylize(line.style)
    for span in line.spans:
        found.stylize(span.style, span.start, min(span.end, len(found.plain)))
    return found
