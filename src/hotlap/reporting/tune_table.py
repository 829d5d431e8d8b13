"""The rows of a tune as a table whose reasons stay readable however narrow the terminal."""

from collections.abc import Sequence

from rich.text import Text

from hotlap.reporting.words import duration, hanging, interval, named, ratio
from hotlap.tune.result import Outcome, Status

STYLES = {
    Status.KEPT: "bold green",
    Status.BROKE_PARITY: "red",
    Status.CRASHED: "red",
    Status.NOT_FASTER: "default",
    Status.SAME: "default",
    Status.INCONCLUSIVE: "yellow",
    Status.LOAD_DEPENDENT: "yellow",
}
HEADER = ("technique", "speed", "interval", "memory", "")
GAP = "  "
INDENT = " " * 4
LONGEST_HINT_SECONDS = 3600.0


def table(rows: Sequence[Outcome], width: int) -> Text:
    """The table; where a reason does not fit beside its row, all of them stand below theirs."""
    cells = [(*_figures(row), str(row.status)) for row in rows]
    columns = [column for column in zip(HEADER, *cells, strict=True) if any(column[1:])]
    widths = [max(map(len, column)) for column in columns]
    lines = [_line(line, widths) for line in zip(*columns, strict=True)]
    reasons = [reason(row) for row in rows]
    beside = all(
        len(line) + len(why) + 2 < width for line, why in zip(lines[1:], reasons, strict=True)
    )
    drawn = Text(lines[0].rstrip(), "bold")
    for row, line, why in zip(rows, lines[1:], reasons, strict=True):
        drawn.append("\n" + _whole(line, why, width, beside=beside), STYLES.get(row.status, "dim"))
    return drawn


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """The first column and the last to the left, figures to the right."""
    first, *figures, last = [
        cell.ljust(width) if index in {0, len(cells) - 1} else cell.rjust(width)
        for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return GAP.join((first, *figures, last))


def _whole(line: str, why: str, width: int, *, beside: bool) -> str:
    if not why:
        return line.rstrip()
    if beside:
        return f"{line.rstrip()}: {why}"
    return f"{line.rstrip()}\n{hanging(why, width, INDENT, INDENT)}"


def plain(row: Outcome) -> str:
    """One row on one line."""
    words = " ".join(filter(None, (*_figures(row), str(row.status))))
    why = reason(row)
    return f"{words}: {why}" if why else words


def _figures(row: Outcome) -> tuple[str, str, str, str]:
    name = named(row.technique, row.values)
    unchanged = row.status is Status.NOT_APPLICABLE  # the ratio of a script and itself is no news
    if row.race is None or row.estimate is None or unchanged:
        return name, "", "", ""
    e = row.estimate
    return name, ratio(e.ratio), interval(e), ratio(row.race.memory)


def reason(row: Outcome) -> str:
    """Why it was kept or not, with what it was raced together with and what its start costs."""
    parts = [f"with {', '.join(row.joined)}"] if row.joined else []
    parts += [row.reason] if row.reason else []
    if row.race is not None and row.status is Status.KEPT:
        extra = row.race.b_warmup - row.race.a_warmup
        if extra > 2:
            steps = f"{row.race.break_even:.0f}"
            parts.append(f"adds {duration(extra)} of start-up; pays off after {steps} steps")
    if row.status is Status.INCONCLUSIVE and 0 < row.seconds_needed < LONGEST_HINT_SECONDS:
        parts.append(f"about {duration(row.seconds_needed)} more would settle it")
    return "; ".join(parts)
