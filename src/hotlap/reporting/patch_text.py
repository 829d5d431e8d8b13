"""How a patch looks: the diff in colours at a terminal, plain in a pipe, and what is left to do."""

from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.text import Text

from hotlap.notebook.script import in_cells

if TYPE_CHECKING:
    from hotlap.source.patch.plan import Patch

INSTALL = "the patched code imports hotlap: it runs only where hotlap is installed"
_STYLES = {"+++": "bold", "---": "bold", "@@": "cyan", "+": "green", "-": "red"}


def show_diff(out: Console, done: "Patch") -> None:
    """The unified diff of all files, fit for `git apply` when piped."""
    for file in done.changed:
        diff = done.diff(file)
        if not out.is_terminal:
            click.echo(diff, nl=False)
            continue
        for line in diff.splitlines():
            out.print(Text(line, _style(line)), soft_wrap=True)


def _style(line: str) -> str:
    return next((style for start, style in _STYLES.items() if line.startswith(start)), "")


def show_written(out: Console, done: "Patch") -> None:
    """Which files were changed."""
    if not done.changed:
        out.print("nothing was written")
    for file in done.changed:
        out.print(Text(f"changed {in_cells(str(file.path))}"), soft_wrap=True)


def show_lists(out: Console, done: "Patch", *, written: bool) -> None:
    """What is written, and what was there already; and whether hotlap stays necessary."""
    lists = (
        ("written" if written else "to be written with --write", done.written),
        ("there already", done.present),
    )
    for title, names in lists:
        if names:
            out.print(Text(f"{title}: {', '.join(names)}"), soft_wrap=True)
    if done.imports_hotlap:
        out.print(Text(INSTALL), soft_wrap=True)


def show_notes(out: Console, done: "Patch") -> None:
    """What is left to a person, place by place."""
    if done.notes:
        out.print(Text("by hand:", "bold"))
    for note in done.notes:
        line = Text("  ").append(in_cells(note.place), "cyan")
        line.append(f"  {note.technique}: ", "bold").append(note.text)
        out.print(line, soft_wrap=True)
