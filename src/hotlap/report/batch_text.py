"""How a search for the batch size looks in the terminal."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.status import Status
from rich.table import Table

from hotlap.batch.limits import gib
from hotlap.batch.result import Found, Row
from hotlap.report.words import duration


class Follow:
    """Follows the search: one line at a terminal, nothing elsewhere."""

    def __init__(self, out: Console, *, enabled: bool) -> None:
        self._out = out
        self._enabled = enabled and out.is_terminal
        self._status: Status | None = None

    @contextmanager
    def showing(self) -> Iterator[None]:
        """Keep the line for as long as the context is open."""
        if not self._enabled:
            yield
            return
        with self._out.status("") as self._status:
            yield

    def stage(self, text: str) -> None:
        """Say what is being done."""
        if self._status is not None:
            self._status.update(text)

    def row(self, row: Row) -> None:
        """Say what a size came to."""
        if self._enabled:
            self._out.print(f"batch {row.size}: {_outcome(row)}", style="dim")


def _outcome(row: Row) -> str:
    if not row.fits:
        return row.why
    return f"{_pace(row.rate)} samples/s" if row.rate else "fits"


def _pace(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def show(out: Console, found: Found, *, brief: bool) -> None:
    """Print the outcome; `brief` leaves the table out."""
    if not found.rows:
        out.print("interrupted before any batch size was timed", style="yellow")
        return
    if not brief:
        out.print(_table(found))
        for note in found.script.notes:
            out.print(note, style="dim")
    if found.interrupted:
        out.print("interrupted: what is known so far", style="yellow")
    ranks = f" on each of {found.script.world} ranks" if found.script.world > 1 else ""
    if found.fastest:
        fastest = found.rows[found.fastest]
        beside = f", {fastest.ratio:.2f}x batch {_reference(found)}" if fastest.ratio else ""
        out.print(f"[bold]fastest: {found.fastest}[/]{ranks}{beside}")
        out.print(f"[bold]largest that fits: {found.largest}[/]{ranks}{_bound(found)}")
    for line in found.advice():
        out.print(line)


def _bound(found: Found) -> str:
    return f" (bound by {found.bound})" if found.bound else ""


def _reference(found: Found) -> int:
    return next((row.size for row in found.rows.values() if row.low == row.high == 1.0), 0)


def _table(found: Found) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("batch", "samples/s", "against own", "time a step", "memory", ""):
        table.add_column(title, justify="left" if title == "" else "right")
    for size in sorted(found.rows):
        row = found.rows[size]
        table.add_row(
            str(size),
            _pace(row.rate) if row.rate else "",
            f"{row.ratio:.2f}x" if row.ratio else "",
            duration(row.step) if row.step else "",
            gib(row.memory) if row.memory else "",
            _mark(found, row),
        )
    return table


def _mark(found: Found, row: Row) -> str:
    if not row.fits:
        return f"does not fit: {row.why}"
    words = []
    if row.size == found.script.batch:
        words.append("the script's own")
    if row.size == found.fastest:
        words.append("fastest")
    if row.size == found.largest:
        words.append("largest")
    return ", ".join(words)
