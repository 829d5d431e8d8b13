"""How the articles' table looks in the terminal and as HTML."""

import datetime
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, select_autoescape
from rich.console import Console
from rich.text import Text

from hotlap import __version__
from hotlap.bench.rows import Measure
from hotlap.bench.run import Finding, Measured
from hotlap.core.machine import Machine
from hotlap.reporting.tables import Column, Row, table
from hotlap.reporting.words import ratio

STYLES = {
    Finding.CONFIRMED: "green",
    Finding.SMALLER: "yellow",
    Finding.REFUTED: "red",
}
COLUMNS = (
    Column("row", left=True),
    Column("what", left=True, spare=1),
    Column("measured here", left=True),
    Column("finding", left=True),
)
NOTES = (
    "ratio: the plain way's time (or memory) over the article's way; above 1 the article's is "
    "better",
    "confirmed: a gain, and the interval reaches the least figure claimed; smaller: a gain that "
    "does not reach it; refuted: no gain of 2 % on this machine",
)


def show(out: Console, found: Sequence[Measured], *, brief: bool) -> None:
    """Show the table and what its words mean, which `brief` leaves out."""
    out.print(table(COLUMNS, [_row(one) for one in found], out.width))
    out.print(f"\n{counted(found)}")
    for note in () if brief else NOTES:
        out.print(note, style="dim", markup=False)


def _row(one: Measured) -> Row:
    finding = Text(one.finding, STYLES.get(one.finding, "dim"))
    claim = f"claimed: {one.row.claim} ({one.row.source})"
    return Row((one.row.id, one.row.title, measured(one), finding), claim)


def measured(one: Measured) -> str:
    """The ratio with its interval and device, or why there is none."""
    if math.isnan(one.ratio):
        return one.note or "no pair of runs reached the target"
    unit = "" if one.row.measure is Measure.TIME else f" {one.row.measure}"
    if one.low == one.high:
        return f"{ratio(one.ratio)}{unit} ({one.device})"
    high = "-" if math.isinf(one.high) else f"{one.high:.2f}"
    return f"{ratio(one.ratio)}{unit} [{one.low:.2f}, {high}] ({one.device})"


def counted(found: Sequence[Measured]) -> str:
    """How many rows came to each finding."""
    count = Counter(one.finding for one in found)
    return ", ".join(f"{count[finding]} {finding}" for finding in Finding if count[finding])


def write_html(path: Path, found: Sequence[Measured], machine: Machine) -> None:
    """Write the table as one HTML file without outside parts."""
    jinja = Environment(
        loader=PackageLoader("hotlap.reporting"),
        autoescape=select_autoescape(),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    text = jinja.get_template("bench.html").render(
        found=found,
        measured=measured,
        counted=counted(found),
        notes=NOTES,
        machine=machine.summary(),
        version=__version__,
        when=datetime.datetime.now().strftime("%Y-%m-%d %H:%M"),
    )
    path.write_text(text, encoding="utf-8")


def markdown(rows: Sequence[Measured]) -> Iterator[str]:
    """The table's lines for the documentation."""
    yield "| row | article's claim | measured | finding |"
    yield "|---|---|---|---|"
    for one in rows:
        claim = f"{one.row.claim} ({one.row.source})"
        yield f"| {one.row.title} | {claim} | {measured(one)} | {one.finding} |"
