"""Findings in notebooks: their lines as lines of a cell."""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

from hotlap.core.errors import UsageError
from hotlap.notebook.script import SUFFIX, Notebook, cell_of, notebook_of
from hotlap.source.lint import Spot


def in_cells(spots: Iterable[Spot]) -> list[Spot]:
    """The spots, those in a notebook (or in the script made of it) by cell and line."""

    @cache
    def code(path: Path) -> tuple[Path, list[str]]:
        notebook = path.suffix == SUFFIX
        name = str(path) if notebook else notebook_of(str(path))
        try:
            text = Notebook(path).code() if notebook else path.read_text("utf-8", "replace")
        except (OSError, UsageError):  # a spot of its own says so
            text = ""
        return Path(name or path), text.split("\n") if name else []

    return [_in_cell(spot, *code(spot.path)) for spot in spots]


def _in_cell(spot: Spot, path: Path, lines: list[str]) -> Spot:
    cell, line = cell_of(lines, spot.line)
    if not cell:
        return spot
    shift = spot.line - line
    end = max(0, spot.end_line - shift)
    since = max(0, spot.since - shift)
    return replace(spot, path=path, cell=cell, line=line, end_line=end, since=since)


def as_file_places(spots: Iterable[Spot]) -> list[Spot]:
    """For formats that know files and lines alone: a notebook's first line, the cell in words."""
    return [
        replace(spot, says=f"cell {spot.cell}, line {spot.line}: {spot.says}",
                line=1, column=1, end_line=1, end_column=1)
        if spot.cell else spot
        for spot in spots
    ]  # fmt: skip
