"""Spots in the terminal, and as annotations for GitHub."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from hotlap.source.lint import Spot


def show(out: Console, spots: list[Spot]) -> None:
    """One line a spot under its file, the remedy below it; then the count.

    The files come in the order of their first spots.
    """
    by_file: dict[Path, list[Spot]] = {}
    for spot in spots:
        by_file.setdefault(spot.path, []).append(spot)
    for path, group in by_file.items():
        out.print(f"[bold]{escape(str(path))}[/]")
        for spot in group:
            mark = "[dim]hint[/] " if spot.hint else ""
            out.print(
                f"  [cyan]{spot.line}:{spot.column}[/]  {mark}[bold]{spot.id}[/]  "
                f"{escape(spot.says)}",
                soft_wrap=True,
            )
            out.print(f"      {escape(spot.remedy)}", style="dim", soft_wrap=True)
    out.print(summary(spots), style="bold" if spots else "green")


def summary(spots: Iterable[Spot]) -> str:
    """How many findings and hints there are."""
    counts = Counter(spot.hint for spot in spots)
    parts = [_count(counts[hint], word) for hint, word in ((False, "finding"), (True, "hint"))]
    return ", ".join(part for part in parts if part) or "nothing found"


def github(spots: Iterable[Spot]) -> str:
    """Workflow commands that GitHub shows beside the lines of a pull request."""
    return "".join(
        f"::{'notice' if spot.hint else 'warning'} file={_property(str(spot.path))},"
        f"line={spot.line},endLine={spot.end_line},col={spot.column},"
        f"title={_property('hotlap ' + spot.id)}::{_data(f'{spot.says}; {spot.remedy}')}\n"
        for spot in spots
    )


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number > 1)}" if number else ""


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
