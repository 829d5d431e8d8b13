"""Rounds of two sides by turns, and the ratios of their seconds."""

import statistics
from collections.abc import Callable, Mapping, Sequence

Clocks = tuple[float, float]
Row = dict[tuple[str, str], float]


def by_turns(sides: Mapping[str, Callable[[], Clocks]], number: int, repeats: int = 1) -> Row:
    """Seconds of round `number`, by side and clock (`wall`, `cpu`); who begins alternates."""
    seconds = {(name, clock): 0.0 for name in sides for clock in ("wall", "cpu")}
    for repeat in range(repeats):
        for name in list(sides) if (number + repeat) % 2 else list(reversed(sides)):
            for clock, spent in zip(("wall", "cpu"), sides[name](), strict=True):
                seconds[name, clock] += spent
    return seconds


def ratios_of(rows: Sequence[Row], above: str, below: str) -> dict[str, dict[str, float]]:
    """Median and range of the rounds' ratios of two sides, by clock."""
    summary = {}
    for clock in ("wall", "cpu"):
        ratios = [row[above, clock] / row[below, clock] for row in rows]
        summary[f"{above} / {below}, {clock}"] = {
            "median": round(statistics.median(ratios), 3),
            "least": round(min(ratios), 3),
            "most": round(max(ratios), 3),
        }
    return summary
