"""What a model can be shrunk to: the table of candidates, their front, a plot in characters."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev

from rich.console import Console
from rich.text import Text

from hotlap.core.amounts import size
from hotlap.core.protocol import Document
from hotlap.reporting.tables import Row, columns, table
from hotlap.reporting.words import count

# two-sided 95 % of Student's t by degrees of freedom; 1.96 + 2.5 / freedom beyond, within 1 %
_STUDENT = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}
_WIDE, _HIGH = 48, 10
COLUMNS = ("", "candidate", "parameters", "file", "latency", "quality", "misses")


@dataclass
class Found:
    """What the events told so far."""

    job: Document
    original: Document = field(default_factory=dict)
    candidates: dict[str, Document] = field(default_factory=dict)
    skipped: list[Document] = field(default_factory=list)
    written: Document = field(default_factory=dict)
    tested: Document = field(default_factory=dict)
    doing: str = ""
    interrupted: bool = False

    def take(self, event: Document) -> None:
        """Keep one event."""
        kind, rest = event["event"], {k: v for k, v in event.items() if k != "event"}
        if kind == "original":
            self.original = rest
        elif kind == "candidate":
            self.candidates[rest["name"]] = rest
        elif kind == "skipped":
            self.skipped.append(rest)
        elif kind == "written":
            self.written = rest
        elif kind == "tested":
            self.tested = rest
        elif kind == "status":
            self.doing = rest["text"]

    def rows(self) -> list[Document]:
        """Candidates with interval and front, the fastest first."""
        rows = [{**row, "quality": interval(row["qualities"])} for row in self.candidates.values()]
        better = -1 if self.job["lower_is_better"] else 1
        for row in rows:
            row["front"] = not any(_dominates(other, row, better) for other in rows)
        return sorted(rows, key=lambda row: -row["latency"][0])

    def document(self) -> dict[str, object]:
        """As `--json` prints it."""
        return {"job": self.job, "original": self.original, "candidates": self.rows(),
                "skipped": self.skipped, "written": self.written, "tested": self.tested,
                "interrupted": self.interrupted}  # fmt: skip


def interval(values: list[float]) -> tuple[float, float | None]:
    """Mean, and half the width of its 95 % interval; None for a single value."""
    if len(values) < 2:
        return values[0], None
    free = len(values) - 1
    t = _STUDENT.get(free, 1.96 + 2.5 / free)
    return fmean(values), t * stdev(values) / math.sqrt(len(values))


def quality(values: list[float]) -> str:
    """The mean over seeds with its interval."""
    mean, half = interval(values)
    return f"{mean:.4g}" + (f" ± {half:.2g} ({len(values)} seeds)" if half is not None else "")


def tested_text(found: Document) -> str:
    """The winner on data that chose nothing."""
    text = f"--test: {quality(found['qualities'])}, the original {found['original']:.4g}"
    return text if found["holds"] else f"{text}; more than --max-drop is lost on these data"


def candidate(row: Document) -> str:
    """A candidate in a line: `int8: 1.42x [1.31, 1.55], quality 0.981, misses size`."""
    gain, low, high = row["latency"]
    misses = f", misses {', '.join(row['fails'])}" if row["fails"] else ""
    measured = f"{gain:.2f}x [{low:.2f}, {high:.2f}], quality {quality(row['qualities'])}"
    return f"{row['name']}: {measured}{misses}"


def _dominates(one: Document, other: Document, better: int) -> bool:
    mine = (one["latency"][0], -one["bytes"], better * one["quality"][0])
    theirs = (other["latency"][0], -other["bytes"], better * other["quality"][0])
    return mine != theirs and all(a >= b for a, b in zip(mine, theirs, strict=True))


def show(out: Console, found: Found, *, brief: bool) -> None:
    """Print the table, the plot, and what was written."""
    rows = found.rows()
    if found.original and not brief:
        out.print(_table(found, rows, out.width))
        out.print(Text("* on the Pareto front of latency, size and quality", "dim"))
        for line in plot(rows):
            out.print(Text(line))
        for entry in found.skipped:
            out.print(Text(f"skipped {entry['name']}: {entry['why']}", "dim"))
    if found.interrupted:
        out.print("interrupted: what is shown was measured" if rows else "interrupted")
    if found.written:
        folder = found.written["folder"]
        if found.tested:
            out.print(Text(tested_text(found.tested)))
        out.print(Text(f"written: {found.written['name']}, to {folder} (load.py loads it)", "bold"))
    elif rows and not found.interrupted:
        closest = min(rows, key=lambda row: len(row["fails"]))
        out.print(
            f"no candidate meets all targets; {closest['name']} misses "
            f"{', '.join(closest['fails']) or 'none with one seed'}"
        )


def _table(found: Found, rows: list[Document], width: int) -> Text:
    first = found.original
    lines = [Row(("  original", count(first["parameters"]), size(first["bytes"]),
                  f"{first['milliseconds']:.3g} ms", f"{first['quality']:.4g}"))]  # fmt: skip
    for row in rows:
        mark, name, *figures, misses = shrink_cells(row, first)
        lines.append(Row((f"{mark:1} {name}", *figures), f"misses {misses}" if misses else ""))
    return table(columns("  candidate", *COLUMNS[2:-1]), lines, width)


def shrink_cells(row: Document, first: Document) -> list[str]:
    """A candidate beside the original, a text for each of `COLUMNS`."""
    gain, low, high = row["latency"]
    return [
        "*" if row["front"] else "",
        row["name"],
        f"{row['parameters'] / first['parameters']:.2f}x",
        f"{row['bytes'] / first['bytes']:.2f}x",
        f"{gain:.2f}x [{low:.2f}, {high:.2f}]",
        quality(row["qualities"]),
        ", ".join(row["fails"]),
    ]


def plot(rows: list[Document]) -> list[str]:
    """Latency gain to the right, quality upwards; `o` on the front, `.` behind it."""
    if len(rows) < 2:
        return []
    xs, ys = [row["latency"][0] for row in rows], [row["quality"][0] for row in rows]
    left, bottom = min(xs), min(ys)
    wide, high = (max(xs) - left) or 1.0, (max(ys) - bottom) or 1.0
    grid = [[" "] * _WIDE for _ in range(_HIGH)]
    for row, x, y in sorted(zip(rows, xs, ys, strict=True), key=lambda entry: entry[0]["front"]):
        across = round((x - left) / wide * (_WIDE - 1))
        down = _HIGH - 1 - round((y - bottom) / high * (_HIGH - 1))
        grid[down][across] = "o" if row["front"] else "."
    marks = [f"{max(ys):.4g}", *[""] * (_HIGH - 2), f"{bottom:.4g}"]
    drawn = [f"{mark:>9} |{''.join(line)}" for mark, line in zip(marks, grid, strict=True)]
    foot = f"{left:.2f}x".ljust(_WIDE - 6) + f"{max(xs):.2f}x"
    return ["quality", *drawn, " " * 10 + "+" + "-" * _WIDE, " " * 11 + foot + "  faster"]


def front_picture(rows: Sequence[Document]) -> dict[str, object] | None:
    """Points of a picture of 600 x 200: latency gain to the right, quality upwards."""
    if len(rows) < 2:
        return None
    gains, qualities = [r["latency"][0] for r in rows], [r["quality"][0] for r in rows]
    left, bottom = min(gains), min(qualities)
    wide, high = (max(gains) - left) or 1.0, (max(qualities) - bottom) or 1.0
    points = [
        {"x": round(10 + 580 * (gain - left) / wide, 1), "front": row["front"],
         "y": round(190 - 180 * (good - bottom) / high, 1), "name": row["name"]}
        for row, gain, good in zip(rows, gains, qualities, strict=True)
    ]  # fmt: skip
    return {"points": points, "left": left, "right": max(gains), "bottom": bottom,
            "top": max(qualities)}  # fmt: skip
