"""Spots in the terminal, and in the formats of GitHub, GitLab and reviewdog."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from rich.console import Console
from rich.text import Text

from hotlap.core.registry import techniques
from hotlap.reporting.words import hanging
from hotlap.source.lint import Spot

WITHOUT_GPU = "no NVIDIA GPU was found here; without one these cost next to nothing"
NAMED_FILES = 3
"""Files that one line names; of more it gives the number."""


def show(out: Console, spots: list[Spot], *, brief: bool, gpu: bool = True) -> None:
    """One line a spot under its file, the remedy below it; then the count, but not when `brief`.

    The files come in the order of their first spots. Without a `gpu`, the hints that concern one
    come last, under a heading of their own.
    """
    apart = [] if gpu else [spot for spot in spots if spot.hint and _needs_gpu(spot)]
    _show_files(out, [spot for spot in spots if spot not in apart])
    if apart:
        out.print(f"\n[bold]With a GPU[/] ({WITHOUT_GPU})")
        _show_files(out, apart)
    if not brief:
        out.print(summary(spots), style="bold" if spots else "green")


def _needs_gpu(spot: Spot) -> bool:
    """Whether a spot's technique only concerns programs that compute on a GPU."""
    record = techniques().get(spot.technique)
    return record is not None and any(need.fact == "cuda" for need in record.needs)


def _show_files(out: Console, spots: list[Spot]) -> None:
    by_file: dict[Path, list[Spot]] = {}
    for spot in spots:
        by_file.setdefault(spot.path, []).append(spot)
    for path, group in by_file.items():
        out.print(Text(str(path), "bold"), soft_wrap=True)
        for spot in group:
            out.print(_found(spot, out.width))
            out.print(Text(hanging(spot.remedy, out.width, " " * 6, " " * 6), "dim"))


def _found(spot: Spot, width: int) -> Text:
    """What was found and where, on as many lines as it takes."""
    mark = "hint " if spot.hint else ""
    words = f"{spot.position}  {mark}{spot.id}  {spot.says}"
    text = Text(hanging(words, width, "  ", " " * 6))
    text.stylize("cyan", 2, 2 + len(spot.position))
    if spot.hint:
        text.highlight_regex(r"(?<=\s)hint(?=\s)", "dim")
    begin = text.plain.index(spot.id)
    text.stylize("bold", begin, begin + len(spot.id))
    return text


def summary(spots: Iterable[Spot]) -> str:
    """How many findings and hints there are."""
    return _counted(spots) or "nothing found"


def summary_of_fixes(fixed: Mapping[Path, int], left: Iterable[Spot]) -> str:
    """How many findings were fixed and in which files, and how many are left.

    `fixed`: the number of findings by file.
    """
    files = [str(path) for path, number in fixed.items() if number]
    where = ", ".join(files) if len(files) <= NAMED_FILES else f"{len(files)} files"
    count = _count(sum(fixed.values()), "finding")
    done = f"{count} fixed in {where}" if files else "nothing fixed"
    return f"{done}; {_counted(left) or 'nothing'} left"


def _counted(spots: Iterable[Spot]) -> str:
    counts = Counter(spot.hint for spot in spots)
    parts = [_count(counts[hint], word) for hint, word in ((False, "finding"), (True, "hint"))]
    return ", ".join(part for part in parts if part)


def github(spots: Iterable[Spot]) -> str:
    """Workflow commands that GitHub shows beside the lines of a pull request."""
    return "".join(
        f"::{'notice' if spot.hint else 'warning'} file={_property(str(spot.path))},"
        f"line={spot.line},endLine={spot.end_line},col={spot.column},"
        f"title={_property('hotlap ' + spot.id)}::{_data(f'{spot.says}; {spot.remedy}')}\n"
        for spot in spots
    )


def statistics(spots: Iterable[Spot]) -> str:
    """How often each pattern was found, the most frequent first."""
    counts = Counter((spot.id, spot.hint) for spot in spots)
    width = len(str(max(counts.values(), default=0)))
    return "".join(
        f"{count:>{width}}  {'hint' if hint else '    '}  {id_}\n"
        for (id_, hint), count in sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    )


def rdjsonl(spots: Iterable[Spot]) -> str:
    """Diagnostics for reviewdog (`-f=rdjsonl`), one JSON object a line."""
    return "".join(json.dumps(_diagnostic(spot)) + "\n" for spot in spots)


def _diagnostic(spot: Spot) -> dict[str, object]:
    start = {"line": spot.line, "column": spot.column}
    end = {"line": spot.end_line or spot.line, "column": spot.end_column or spot.column}
    return {
        "message": f"{spot.says}; {spot.remedy}",
        "location": {"path": spot.path.as_posix(), "range": {"start": start, "end": end}},
        "severity": "INFO" if spot.hint else "WARNING",
        "source": {"name": "hotlap"},
        "code": {"value": spot.id},
    }


def gitlab(spots: Iterable[Spot]) -> str:
    """A code-quality report of GitLab: a JSON list, each entry with a fingerprint of its own."""
    seen: Counter[str] = Counter()
    entries = []
    for spot in spots:
        key = f"{spot.path.as_posix()}:{spot.id}:{spot.says}"
        seen[key] += 1
        fingerprint = hashlib.sha256(f"{key}:{seen[key]}".encode()).hexdigest()
        entries.append({
            "description": f"{spot.says}; {spot.remedy}",
            "check_name": spot.id,
            "fingerprint": fingerprint,
            "severity": "info" if spot.hint else "minor",
            "location": {"path": spot.path.as_posix(), "lines": {"begin": spot.line}},
        })  # fmt: skip
    return json.dumps(entries, indent=2) + "\n"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number > 1)}" if number else ""


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
