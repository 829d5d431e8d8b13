"""Prints a search for the batch size in the terminal."""

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from hotlap.batch.batch_result import BatchResult, SizeResult
from hotlap.batch.limits import gib
from hotlap.core.amounts import duration
from hotlap.reporting.live_screen import LiveScreen
from hotlap.reporting.tables import Row, columns, table
from hotlap.reporting.words import TOO_FEW, background
from hotlap.trial.launch import SLEEPING_IN_SEARCH

COLUMNS = columns("batch", "samples/s", "ratio (interval)", "time per step", "memory")


class Follow:
    """Follows the search on a live screen, or in a pipe line by line."""

    def __init__(self, out: Console, command: str, budget: float, *, enabled: bool) -> None:
        self._screen = LiveScreen(out, f"hotlap batch {command}", budget=budget, verbose=enabled)
        self._fastest = 0.0
        self.showing = self._screen.showing

    def stage(self, text: str) -> None:
        """Show what is being done."""
        self._screen.stage(text)

    def row(self, row: SizeResult) -> None:
        """Show the result of a size."""
        best = row.fits and row.rate > self._fastest
        self._fastest = max(self._fastest, row.rate if row.fits else 0.0)
        said = f"batch {row.size}: {_outcome(row)}"
        self._screen.row(said, said if best else "")


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
        for note in (*found.script.notes, *([SLEEPING_IN_SEARCH] if found.asleep else [])):
            out.print(note, style="dim")
    if found.interrupted:
        out.print("interrupted: these are the sizes measured so far", style="yellow")
    for line in [*(_answers(found) if found.largest else []), *found.advice()]:
        out.print(line)
    if not brief:
        out.print(background(found.load), style="dim")


def _answers(found: BatchResult) -> Iterator[str]:
    ranks = f" on each of {found.script.world} ranks" if found.script.world > 1 else ""
    yield _fastest(found, ranks)
    title = "largest that fits" if found.largest_known else "largest tried"
    yield f"[bold]{title}: {found.largest}[/]{ranks}{_bound(found)}"
    if open_answers := {found.fastest, found.largest} - {0, *found.confirmed}:
        sizes = " and ".join(map(str, sorted(open_answers)))
        yield f"not confirmed by more steps within the budget: batch {sizes}"


def _fastest(found: BatchResult, ranks: str) -> str:
    if found.fastest:
        return f"[bold]fastest: {found.fastest}[/]{ranks}{_against_reference(found)}"
    return (
        f"[bold]fastest: not known[/] (only batch {found.reference} was timed within the budget; "
        "raise --budget)"
    )


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
    open_interval = "timed alone" if row.alone else TOO_FEW
    interval = f"{row.low:.2f} to {row.high:.2f}" if row.low else open_interval
    return f"{row.ratio:.2f}x ({interval})"


def _table(found: BatchResult, width: int) -> Text:
    return table(COLUMNS, [_row(found, found.rows[size]) for size in sorted(found.rows)], width)


def _row(found: BatchResult, row: SizeResult) -> Row:
    figures = (
        _pace(row.rate) if row.rate else "",
        _ratio(row),
        duration(row.step_seconds) if row.step_seconds else "",
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
