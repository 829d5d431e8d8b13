"""The layers of a model in the terminal: what each costs, and which break a guideline."""

from rich.console import Console
from rich.text import Text

from hotlap.core.amounts import duration, size
from hotlap.core.protocol import Document
from hotlap.model.guidelines import Offence, offences
from hotlap.reporting.tables import Column, Row, table
from hotlap.reporting.words import count, hanging

TOP = 16
COLUMNS = (
    Column("layer", left=True),
    Column("kind", left=True, spare=2),
    Column("forward"),
    Column("share"),
    Column("FLOPs"),
    Column("parameters", spare=1),
    Column("moved"),
    Column("FLOP/byte"),
)
SOURCE = "guidelines of ShuffleNetV2 (Ma et al., 2018); the share is that of all memory accesses"


def show(out: Console, layers: Document) -> None:
    """The table of layers and the worst offenders."""
    rows = layers["rows"]
    out.print(_table(rows, out.width))
    hidden = len(rows) - TOP + layers["left_out"]
    if hidden > 0:
        out.print(Text(f"and {hidden} more; --json has them", "dim"))
    found = offences(rows)
    if found:
        out.print(Text("\nlayers that break a guideline most", "bold"))
        for offence in found:
            out.print(Text(hanging(_told(offence), out.width, "  ", " " * 8)))
        out.print(Text(SOURCE, "dim"))
    out.print()


def _table(rows: list[Document], width: int) -> Text:
    """The costliest layers."""
    lines = []
    whole = sum(row["seconds"] for row in rows) or 1.0
    for row in rows[:TOP]:
        moved = row["traffic"]
        lines.append(
            Row(
                (
                    row["layer"],
                    row["kind"],
                    duration(row["seconds"]),
                    f"{row['seconds'] / whole:.0%}",
                    count(row["flops"]),
                    f"{row['parameters']:,}",
                    size(moved),
                    f"{row['flops'] / moved:.1f}" if moved else "-",
                )
            )
        )
    return table(COLUMNS, lines, width)


def _told(offence: Offence) -> str:
    where = f"  [{offence.place}]" if offence.place else ""
    return f"{offence.share:4.0%}  {offence.guideline}: {offence.layer}, {offence.says}{where}"
