"""The layers of a model in the terminal: what each costs, and which break a guideline."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hotlap.model.guidelines import Offence, offences
from hotlap.reporting.words import count, duration, shortened, size

TOP = 16
SOURCE = "guidelines of ShuffleNetV2 (Ma et al., 2018); the share is that of all memory accesses"


def show(out: Console, layers: Mapping[str, Any]) -> None:
    """The table of layers and the worst offenders."""
    rows = layers["rows"]
    out.print(_table(rows, whole_names=not out.is_terminal))
    hidden = len(rows) - TOP + layers["left_out"]
    if hidden > 0:
        out.print(Text(f"and {hidden} more; --json has them", "dim"))
    found = offences(rows)
    if found:
        out.print(Text("\nlayers that break a guideline most", "bold"))
        for offence in found:
            out.print(shortened(_told(offence), out.width))
        out.print(Text(SOURCE, "dim"))
    out.print()


def _table(rows: list[Mapping[str, Any]], *, whole_names: bool) -> Table:
    """The costliest layers; names are cut where the terminal has no room for them."""
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for title, most in (("layer", 28), ("kind", 18)):
        limit = None if whole_names else most
        drawn.add_column(title, overflow="ellipsis", max_width=limit, no_wrap=True)
    for title in ("forward", "share", "FLOPs", "parameters", "moved", "FLOP/byte"):
        drawn.add_column(title, justify="right", no_wrap=True)
    whole = sum(row["seconds"] for row in rows) or 1.0
    for row in rows[:TOP]:
        moved = row["traffic"]
        drawn.add_row(
            row["layer"],
            row["kind"],
            duration(row["seconds"]),
            f"{row['seconds'] / whole:.0%}",
            count(row["flops"]),
            f"{row['parameters']:,}",
            size(moved),
            f"{row['flops'] / moved:.1f}" if moved else "-",
        )
    return drawn


def _told(offence: Offence) -> str:
    where = f"  [{offence.place}]" if offence.place else ""
    return f"  {offence.share:4.0%}  {offence.guideline}: {offence.layer}, {offence.says}{where}"
