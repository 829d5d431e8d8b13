"""Tables that every terminal can show: no cell is cut off or broken, however narrow it is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len
from rich.text import Text

from hotlap.reporting.words import hanging

GAP = "  "
INDENT = " " * 4
FEW = 1 / 3
"""Share of the rows whose notes may stand below while the others' stand beside."""
Cell = str | Text


@dataclass(frozen=True)
class Column:
    """A column; where there is no room those with the highest `spare` are left out first.

    0: it is never left out.
    """

    title: str
    left: bool = False
    spare: int = 0


@dataclass(frozen=True)
class Row:
    """A row; its note is free text, which stands beside the cells or below them.

    A heading has one cell, for which no column is made wider.
    """

    cells: Sequence[Cell]
    note: str = ""
    style: str = ""
    heading: bool = False


def columns(*titles: str, left: Sequence[str] = ()) -> tuple[Column, ...]:
    """Columns that are never left out: text in the first and in those of `left`, else figures."""
    return tuple(Column(title, left=title in {titles[0], *left}) for title in titles)


def table(wanted: Sequence[Column], rows: Sequence[Row], width: int, joint: str = GAP) -> Text:
    """The table in at most `width` columns; at least no word of it is broken.

    What has no room stands elsewhere: notes below their rows, spare columns left out, names on
    lines of their own, at last each cell behind its title. A column without entries is left out.
    `joint` parts a row from the note beside it.
    """
    if not rows:
        return Text("")
    lines: list[Text] = []
    for lines in _layouts(wanted, rows, width, joint):
        if max(cell_len(part) for line in lines for part in line.plain.split("\n")) <= width:
            break
    return Text("\n").join(lines)


def _layouts(
    wanted: Sequence[Column], rows: Sequence[Row], width: int, joint: str
) -> Iterator[list[Text]]:
    """The table's lines, from the layout that needs most room to the one that needs least."""
    parts = [_part(wanted, rows, kept) for kept in _choices(wanted, rows)]
    for some, shown in parts:
        yield [_beside(*pair, joint) for pair in _lines(some, shown)]
        mixed = [_beside_or_below(*pair, width, joint) for pair in _lines(some, shown)]
        if sum("\n" in line.plain for line in mixed) <= FEW * sum(bool(r.note) for r in rows):
            yield mixed
    for some, shown in parts:
        yield [_below(*pair, width) for pair in _lines(some, shown)]
    yield [_below(*pair, width) for pair in _names_apart(some, shown)]
    yield [_record(some, row, width) for row in shown[len(shown) - len(rows) :]]


def _choices(wanted: Sequence[Column], rows: Sequence[Row]) -> Iterator[list[int]]:
    """Which columns to show: all that have an entry, then fewer and fewer."""
    whole = [row for row in rows if not row.heading]
    kept = [i for i in range(len(wanted)) if any(_text(row.cells[i]) for row in whole)]
    yield kept
    for spare in sorted({wanted[i].spare for i in kept} - {0}, reverse=True):
        kept = [i for i in kept if wanted[i].spare != spare]
        yield kept


def _part(
    wanted: Sequence[Column], rows: Sequence[Row], kept: Sequence[int]
) -> tuple[list[Column], list[Row]]:
    """Some of the columns, and their rows, begun by the titles if there are any."""
    some = [wanted[i] for i in kept]
    listed = [row if row.heading else _only(row, kept) for row in rows]
    titles = Row([column.title for column in some], style="bold")
    return some, [titles, *listed] if any(titles.cells) else listed


def _only(row: Row, kept: Sequence[int]) -> Row:
    return replace(row, cells=[row.cells[i] for i in kept])


def _text(cell: Cell) -> Text:
    return cell.copy() if isinstance(cell, Text) else Text(cell)


def _lines(wanted: Sequence[Column], rows: Sequence[Row]) -> list[tuple[Text, Row]]:
    """Each row with its cells in columns as wide as their widest cell."""
    whole = [row for row in rows if not row.heading]
    widths = [max(_text(row.cells[i]).cell_len for row in whole) for i in range(len(wanted))]
    return [
        (_text(row.cells[0]) if row.heading else _line(row, wanted, widths), row) for row in rows
    ]


def _line(row: Row, wanted: Sequence[Column], widths: Sequence[int]) -> Text:
    cells = [_text(cell) for cell in row.cells]
    for cell, column, width in zip(cells, wanted, widths, strict=True):
        space = width - cell.cell_len
        if column.left:
            cell.pad_right(space)
        else:
            cell.pad_left(space)
    return Text(GAP).join(cells)


def _names_apart(wanted: Sequence[Column], rows: Sequence[Row]) -> list[tuple[Text, Row]]:
    """Each name on a line, the other cells in columns on the next."""
    rest = range(1, len(wanted))
    lines = _lines(wanted[1:], [row if row.heading else _only(row, rest) for row in rows])
    return [
        (line if row.heading else _text(row.cells[0]) + Text(f"\n{INDENT}") + line, row)
        for row, (line, _) in zip(rows, lines, strict=True)
    ]


def _record(wanted: Sequence[Column], row: Row, width: int) -> Text:
    """The name, then every other cell behind its title, and the note."""
    cells = [] if row.heading else zip(wanted[1:], row.cells[1:], strict=True)
    named = [f"{column.title} {cell}".strip() for column, cell in cells if _text(cell)]
    figures = "\n" + hanging(", ".join(named), width, INDENT, INDENT) if named else ""
    return _below(_text(row.cells[0]) + Text(figures), row, width)


def _beside(line: Text, row: Row, joint: str) -> Text:
    """The note in a column of its own; behind the last cell where something else parts them."""
    if joint != GAP or not row.note:
        line.rstrip()
    return _styled(line + Text(joint + row.note) if row.note else line, row.style)


def _beside_or_below(line: Text, row: Row, width: int, joint: str) -> Text:
    fits = line.cell_len + cell_len(joint + row.note) <= width
    return _beside(line, row, joint) if fits else _below(line, row, width)


def _below(line: Text, row: Row, width: int) -> Text:
    line.rstrip()
    note = "\n" + hanging(row.note, width, INDENT, INDENT) if row.note else ""
    return _styled(line + Text(note), row.style)


def _styled(line: Text, style: str) -> Text:
    """The line in the row's style, over which those of its cells go."""
    line.stylize_before(style)
    return line
