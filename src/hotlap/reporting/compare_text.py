"""Two documents of the same verb, figure by figure."""

import math
import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.text import Text

from hotlap.core.amounts import duration, size
from hotlap.core.errors import UsageError
from hotlap.core.protocol import Document
from hotlap.profile.model import TITLES
from hotlap.reporting.tables import Row as Line
from hotlap.reporting.tables import columns, table
from hotlap.reporting.view import estimate_of
from hotlap.reporting.words import interval, ratio, speed
from hotlap.trial.stats import Estimate

SKIPPED = frozenset({"schema_version", "date", "budget", "seconds", "needed"})
SECONDS, BYTES, NUMBER, RATE, SPEED = "seconds", "bytes", "number", "rate", "speed"
RACED = frozenset({"race", "tune"})
"""Verbs whose figures are ratios with intervals: a ratio of two of them says nothing."""
BETTER = "B is better by: of times and bytes A / B, of rates B / A"


@dataclass(frozen=True)
class Figure:
    """A figure of a document; of a race also what it found, in words."""

    value: float
    found: str = ""


@dataclass(frozen=True)
class Row:
    """One figure of both documents, None where one of them has none; and what races found."""

    name: str
    unit: str
    first: float | None
    second: float | None
    first_found: str = ""
    second_found: str = ""

    @property
    def ratio(self) -> float | None:
        """By how many times the second is better: it needs less, or has the higher rate.

        None where more is neither better nor worse, and where the figure is a ratio itself.
        """
        if not self.first or not self.second or self.unit in {NUMBER, SPEED}:
            return None
        less = self.first / self.second
        return 1 / less if self.unit == RATE else less


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
    rows = tuple(_row(key, a.get(key), b.get(key)) for key in {**a, **b})
    if not set(a) & set(b):
        raise UsageError("the two documents have no figure in common")
    return Comparison(first["verb"], rows, tuple(_notes(first, second)))


Key = tuple[str, str]


def _row(key: Key, first: Figure | None, second: Figure | None) -> Row:
    return Row(
        *key,
        first.value if first else None,
        second.value if second else None,
        first.found if first else "",
        second.found if second else "",
    )


def figures_of(document: Document) -> Iterator[tuple[Key, Figure]]:
    """Every figure of a document with its name and unit."""
    if document["verb"] == "profile":
        yield from _of_profile(document)
    elif document["verb"] == "tune":
        yield from _of_tune(document)
    elif "estimate" in document:
        yield from _of_race(document)
    else:
        for key, value in document.items():
            if _is_number(value) and key not in SKIPPED:
                unit = RATE if key.endswith("per_second") else NUMBER
                yield (key.replace("_", " "), unit), Figure(float(value))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _of_profile(document: Document) -> Iterator[tuple[Key, Figure]]:
    yield ("step", SECONDS), Figure(document["step"])
    for phase in document["phases"]:
        yield (TITLES.get(phase["name"], phase["name"]), SECONDS), Figure(phase["mean"])
    yield ("samples/s", RATE), Figure(document["samples_per_second"])
    yield ("peak memory", BYTES), Figure(document["peak_memory"])
    for owner, held in document["memory_by_owner"].items():
        yield (f"memory: {owner}", BYTES), Figure(held)


def _of_race(document: Document) -> Iterator[tuple[Key, Figure]]:
    """The verdict with its interval, and what a step took on either side."""
    yield ("B over A", SPEED), _raced(document, document["verdict"])
    yield ("a step", SECONDS), Figure(document["a_step"])
    yield ("b step", SECONDS), Figure(document["b_step"])


def _of_tune(document: Document) -> Iterator[tuple[Key, Figure]]:
    """What came of each technique that was raced long enough, and of the whole recipe."""
    for row in document["outcomes"]:
        if row["race"] and _known(row["race"]) is not None:
            name = f"{row['technique']}, ratio"
            yield (name, SPEED), _raced(row["race"], row.get("status", ""))
    if final := document.get("final"):
        yield ("whole recipe", SPEED), _raced(final, final["verdict"])
    for name, value in (document.get("final_steps") or {}).items():
        yield (f"{name} step", SECONDS), Figure(value)


def _raced(race: Document, outcome: str) -> Figure:
    """A race's ratio, and in words what came of it."""
    estimate = _known(race)
    if estimate is None:
        return Figure(math.nan, outcome)
    return Figure(estimate.ratio, f"{speed(estimate)} {outcome}".strip())


def _known(race: Document) -> Estimate | None:
    """A race's estimate; None while its interval is too wide to say anything."""
    found = estimate_of(race["estimate"])
    return None if found is None or interval(found) == "-" else found


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
    raced = found.verb in RACED
    lines = [
        Line((
            row.name, row.first_found or _shown(row.first, row.unit),
            row.second_found or _shown(row.second, row.unit),
            "" if raced or row.ratio is None else ratio(row.ratio),
        ))
        for row in found.rows
    ]  # fmt: skip
    titles = ("", "A", "B") if raced else ("", "A", "B", "B better by")
    out.print(table(columns(*titles), lines, out.width))
    ratios = any(line.cells[-1] for line in lines) and not raced
    for note in () if brief else ((BETTER,) * ratios + found.notes):
        out.print(Text(note, "dim"))


def _shown(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    if unit == SECONDS:
        return duration(value)
    return size(int(value)) if unit == BYTES else f"{value:.4g}"
