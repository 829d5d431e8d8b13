"""The rows of a tune as a table whose reasons stay readable however narrow the terminal."""

import math
from collections.abc import Sequence

from rich.text import Text

from hotlap.core.amounts import duration
from hotlap.reporting.tables import Row, columns
from hotlap.reporting.tables import table as drawn
from hotlap.reporting.words import interval, more_memory, named, ratio, roughly
from hotlap.tune.result import SENSIBLE_SECONDS, Outcome, Status

STYLES = {
    Status.KEPT: "bold green",
    Status.BROKE_PARITY: "red",
    Status.CRASHED: "red",
    Status.NOT_FASTER: "default",
    Status.SAME: "default",
    Status.INCONCLUSIVE: "yellow",
    Status.LOAD_DEPENDENT: "yellow",
}
VAGUE = 1.8
"""Upper over lower end of an interval above which its middle may be anywhere, and with it the time
that a verdict takes."""
UNKNOWN_TIME = "a longer race would settle it; the interval is too wide to say how long"
HEADER = ("technique", "speed", "interval", "memory", "")


def table(rows: Sequence[Outcome], width: int) -> Text:
    """The table; where reasons do not fit beside their rows, they stand below them."""
    lines = [Row((*_figures(row), row.standing), reason(row), _style(row)) for row in rows]
    return drawn(columns(*HEADER, left=HEADER[-1:]), lines, width, joint=": ")


def plain(row: Outcome) -> str:
    """One row on one line."""
    *figures, memory = _figures(row)
    changed = f"memory {memory}" if memory else ""
    words = " ".join(filter(None, (*figures, changed, row.standing)))
    why = reason(row)
    return f"{words}: {why}" if why else words


def _style(row: Outcome) -> str:
    return "yellow" if row.standing != row.status else STYLES.get(row.status, "dim")


def _figures(row: Outcome) -> tuple[str, str, str, str]:
    name = named(row.technique, row.values)
    unchanged = row.status is Status.NOT_APPLICABLE  # the ratio of a script and itself is no news
    if row.race is None or row.estimate is None or unchanged:
        return name, "", "", ""
    known = interval(row.estimate)
    figure = "-" if known == "-" else ratio(row.estimate.ratio)
    return name, figure, known, more_memory(row.race.memory)


def reason(row: Outcome) -> str:
    """Why it was kept or not, with what it was raced together with and what its start costs."""
    parts = [f"with {', '.join(row.joined)}"] if row.joined else []
    parts += [row.reason] if row.reason else []
    if row.race is not None and row.status is Status.KEPT and row.race.starts_longer:
        extra, steps = duration(row.race.extra_start), f"{row.race.break_even:.0f}"
        parts.append(f"adds {extra} of start-up; pays off after {steps} steps")
    if row.race is not None and row.race.launches > 1:
        programs = "the program" if row.race.switched else "both programs"
        parts.append(f"over {row.race.launches} starts of {programs}")
    needed = row.seconds_needed if row.status is Status.INCONCLUSIVE else 0.0
    if row.out_of_reach or SENSIBLE_SECONDS < needed < math.inf:
        limit = SENSIBLE_SECONDS / 60
        parts.append(f"more than {limit:.0f} min at this noise: race it on a calmer machine")
    elif 0 < needed < math.inf:
        vague = row.estimate is not None and row.estimate.high > VAGUE * row.estimate.low
        parts.append(UNKNOWN_TIME if vague else f"{roughly(needed)} more would settle it")
    return "; ".join(parts)
