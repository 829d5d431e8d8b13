"""Prints a search for the batch size in the terminal."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.status import Status
from rich.text import Text

from hotlap.batch.batch_result import BatchResult, SizeResult
from hotlap.batch.limits import gib
from hotlap.reporting.tables import Row, columns, table
from hotlap.reporting.words import duration

COLUMNS = columns("batch", "samples/s", "ratio (interval)", "time per step", "memory")


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
        """Show what is being done."""
        if self._status is not None:
            self._status.update(text)

    def row(self, row: SizeResult) -> None:
        """Print the result of a size."""
        if self._enabled:
            self._out.print(f"batch {row.size}: {_outcome(row)}", style="dim")


def _outcome(row: SizeResult) -> str:
    if not row.fits:
        return row.why
    return f"{_pace(row.rate)} samples/s" if row.rate else "fits"


def _pace(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def show(out: Console, found: BatchResult, *, brief: bool) -> None:
    """Print the outcome; `brief` leaves the table out."""
    if not found.rows:
        out.print("interrupted before any batch size was timed", style="yellow")
        return
    if not brief:
        out.print(_table(found, out.width))
        for note in found.script.notes:
            out.print(note, style="dim")
    if found.interrupted:
        out.print("interrupted: these are the sizes measured so far", style="yellow")
    ranks = f" on each of {found.script.world} ranks" if found.script.world > 1 else ""
    if found.fastest:
        out.print(f"[bold]fastest: {found.fastest}[/]{ranks}{_against_reference(found)}")
        title = "largest that fits" if found.largest_known else "largest tried"
        out.print(f"[bold]{title}: {found.largest}[/]{ranks}{_bound(found)}")
        open_answers = {found.fastest, found.largest} - set(found.confirmed)
        if open_answers:
            sizes = " and ".join(map(str, sorted(open_answers)))
            out.print(f"not confirmed by more steps within the budget: batch {sizes}")
    for line in found.advice():
        out.print(line)


def _bound(found: BatchResult) -> str:
    if found.bound and not found.largest_known:
        return " (larger sizes were not tried within the budget; raise --budget)"
    return f" (limited by {found.bound})" if found.bound else ""


def _against_reference(found: BatchResult) -> str:
    """The speed against the reference with its interval, or what may be faster than it."""
    if found.fastest != found.reference:
        ratio = _ratio(found.rows[found.fastest])
        return f", {ratio} the samples per second of batch {found.reference}" if ratio else ""
    if found.promising:
        ratio = _ratio(found.rows[found.promising])
        return f"; batch {found.promising} may be faster: {ratio}, inconclusive within the budget"
    return ""


def _ratio(row: SizeResult) -> str:
    if not row.ratio:
        return ""
    if row.low == row.high == 1.0:
        return "1.00x"
    interval = f"{row.low:.2f} to {row.high:.2f}" if row.low else "timed alone"
    return f"{row.ratio:.2f}x ({interval})"


def _table(found: BatchResult, width: int) -> Text:
    return table(COLUMNS, [_row(found, found.rows[size]) for size in sorted(found.rows)], width)


def _row(found: BatchResult, row: SizeResult) -> Row:
    figures = (
        _pace(row.rate) if row.rate else "",
        _ratio(row),
        duration(row.step) if row.step else "",
        gib(row.memory) if row.memory else "",
    )
    return Row((f"{row.size:>5}", *figures), _mark(found, row))


def _mark(found: BatchResult, row: SizeResult) -> str:
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
