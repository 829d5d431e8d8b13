"""Speed ratios in README and documentation stand in a raw record."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
QUOTED = re.compile(r"(\d+\.\d\d)(?:x| x)? ?\[(\d+\.\d\d), (\d+\.\d\d)\]")
PROSE = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

Figures = tuple[str, str, str]


def quoted(path: Path) -> set[Figures]:
    """Ratios with an interval, in running text and in tables, whatever the columns between."""
    text = re.sub(r"x +\[", "x [", path.read_text("utf-8"))
    return {match.groups() for match in QUOTED.finditer(text)}  # type: ignore[misc]


def estimates(value: Any) -> Iterator[Figures]:
    """Every ratio with its interval anywhere in a record, as it is printed."""
    if isinstance(value, dict):
        ends = [value.get(name) for name in ("ratio", "low", "high")]
        if all(isinstance(end, int | float) for end in ends):
            yield tuple(f"{end:.2f}" for end in ends)  # type: ignore[misc]
        value = list(value.values())
    if isinstance(value, list):
        if len(value) >= 3 and all(isinstance(end, int | float) for end in value[:3]):
            yield tuple(f"{end:.2f}" for end in value[:3])  # type: ignore[misc]
        for entry in value:
            yield from estimates(entry)


@pytest.fixture(scope="module")
def recorded() -> set[Figures]:
    found: set[Figures] = set()
    for path in RESULTS.glob("*/*.txt"):
        found |= quoted(path)
    for path in RESULTS.glob("*/*.json"):
        found |= set(estimates(json.loads(path.read_text("utf-8"))))
        found |= quoted(path)
    return found


def test_there_are_figures_and_records(recorded: set[Figures]) -> None:
    assert quoted(ROOT / "README.md")
    assert len(recorded) > 100


@pytest.mark.parametrize("path", PROSE, ids=[str(path.relative_to(ROOT)) for path in PROSE])
def test_a_quoted_ratio_stands_in_a_record(path: Path, recorded: set[Figures]) -> None:
    assert quoted(path) <= recorded
