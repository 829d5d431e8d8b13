"""Two documents of the same verb, figure by figure."""

import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.text import Text

from hotlap.core.errors import UsageError
from hotlap.core.protocol import Document
from hotlap.profile.model import TITLES
from hotlap.reporting.tables import Row as Line
from hotlap.reporting.tables import columns, table
from hotlap.reporting.view import estimate_of
from hotlap.reporting.words import duration, interval, ratio, size

SKIPPED = frozenset({"schema_version", "date", "budget", "seconds", "needed"})
SECONDS, BYTES, NUMBER = "seconds", "bytes", "number"


@dataclass(frozen=True)
class Row:
    """One figure of both documents; None where one of them has none."""

    name: str
    unit: str
    first: float | None
    second: float | None

    @property
    def ratio(self) -> float | None:
        """The first over the second: of times and bytes, above 1 the second needs less."""
        if not self.first or not self.second:
            return None
        return self.first / self.second


@dataclass(frozen=True)
class Comparison:
    """The figures, and what makes them hard to compare."""

    verb: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...]

    def document(self) -> dict[str, object]:
        """The comparison as plain data."""
        rows = [asdict(row) | {"ratio": row.ratio} for row in self.rows]
        return {"of": self.verb, "rows": rows, "notes": list(self.notes)}


def compare(first: Document, second: Document) -> Comparison:
    """Set the figures of two documents side by side.

    Raises:
        UsageError: they are of different verbs, or hold no figure that both have.
    """
    if first["verb"] != second["verb"]:
        raise UsageError(
            f"a document of {first['verb']} and one of {second['verb']} cannot be compared",
            "give two documents of the same verb",
        )
    a, b = dict(figures_of(first)), dict(figures_of(second))
    rows = tuple(
        Row(name, unit, a.get((name, unit)), b.get((name, unit))) for name, unit in {**a, **b}
    )
    if not set(a) & set(b):
        raise UsageError("the two documents have no figure in common")
    return Comparison(first["verb"], rows, tuple(_notes(first, second)))


def figures_of(document: Document) -> Iterator[tuple[tuple[str, str], float]]:
    """Every figure of a document with its name and unit."""
    if document["verb"] == "profile":
        yield from _of_profile(document)
        return
    final = document.get("final_steps") or {}
    yield from (((f"{name} step", SECONDS), value) for name, value in final.items())
    for row in document.get("outcomes", ()):
        found = estimate_of(row["race"]["estimate"]) if row["race"] else None
        if found is not None and interval(found) != "-":
            yield (f"{row['technique']}, ratio", NUMBER), found.ratio
    if "estimate" in document:
        yield ("B over A", NUMBER), document["estimate"]["ratio"]
    for key, value in document.items():
        if isinstance(value, int | float) and not isinstance(value, bool) and key not in SKIPPED:
            yield (key.replace("_", " "), NUMBER), float(value)


def _of_profile(document: Document) -> Iterator[tuple[tuple[str, str], float]]:
    yield ("step", SECONDS), document["step"]
    for phase in document["phases"]:
        yield (TITLES.get(phase["name"], phase["name"]), SECONDS), phase["mean"]
    yield ("samples/s", NUMBER), document["samples_per_second"]
    yield ("peak memory", BYTES), document["peak_memory"]
    for owner, held in document["memory_by_owner"].items():
        yield (f"memory: {owner}", BYTES), held


def _notes(first: Document, second: Document) -> Iterator[str]:
    machines = [(one.get("machine") or {}) for one in (first, second)]
    prints = [one.get("fingerprint") if isinstance(one, dict) else one for one in machines]
    if prints[0] != prints[1]:
        yield "they were measured on different machines"
    for key, title in (("command", "commands"), ("hotlap", "versions of hotlap")):
        if first.get(key) != second.get(key):
            yield f"different {title}: {_typed(first.get(key))} and {_typed(second.get(key))}"
    yield "measured at different times: `hotlap race A -- B` shows which of two programs is faster"


def _typed(value: object) -> str:
    """A command as it is typed; other values as they are."""
    return shlex.join(value) if isinstance(value, list) else str(value)


def show(out: Console, found: Comparison, *, brief: bool) -> None:
    """The figures as a table, and the notes, which `brief` leaves out."""
    lines = [
        Line((
            row.name, _shown(row.first, row.unit), _shown(row.second, row.unit),
            "" if row.ratio is None else ratio(row.ratio),
        ))
        for row in found.rows
    ]  # fmt: skip
    out.print(table(columns("", "A", "B", "A / B"), lines, out.width))
    for note in () if brief else found.notes:
        out.print(Text(note, "dim"))


def _shown(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    if unit == SECONDS:
        return duration(value)
    return size(int(value)) if unit == BYTES else f"{value:.4g}"
