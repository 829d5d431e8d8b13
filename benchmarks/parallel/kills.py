"""Ranks, nodes and whole trainings killed below `hotlap launch`: what goes on, and how soon.

python -m benchmarks.parallel.kills [--ranks 20] [--nodes 2] [--saves 30]
"""

import argparse
import math
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import record

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from launch import killing

LAYOUTS = ("ddp", "fsdp")
LOST: dict[str, Any] = {
    "recovered": False, "intact": False, "in_a_save": False, "seconds_to_next_step": math.inf,
    "apart": math.inf, "orphans": 0,
}  # fmt: skip
Rows = list[dict[str, Any]]


def main(ranks: int, nodes: int, saves: int) -> None:
    """Kill, and write down what came of it."""
    draw = random.Random(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wanted = {layout: killing.whole(folder / layout, layout) for layout in LAYOUTS}
        if ranks:
            _record("rank", _each(ranks, lambda i, layout: killing.lose_a_rank(
                folder / f"rank-{i}", wanted[layout], draw, layout)))  # fmt: skip
        shrunk: Rows = []
        for victim in ("launcher", "torchrun"):
            shrunk += _each(nodes, lambda i, layout, v=victim: killing.lose_a_node(
                folder / f"{v}-{i}", wanted[layout], draw, layout, v))  # fmt: skip
        if shrunk:
            _record("node", shrunk)
        if saves:
            _record("save", _each(saves, lambda i, layout: killing.lose_everything_in_a_save(
                folder / f"save-{layout}-{i // 6}", wanted[layout], draw, layout)))  # fmt: skip


def _record(what: str, rows: Rows) -> None:
    command = "python -m benchmarks.parallel.kills"
    record.write(f"parallel-kills-{what}", command, rows, SUMMARIES[what](rows))


def _each(number: int, one: Callable[[int, str], dict[str, Any]]) -> Rows:
    rows = []
    for index in range(number):
        layout = LAYOUTS[index % 2]
        try:
            row = one(index, layout)
        except (TimeoutError, ValueError) as error:
            row = {**LOST, "why": str(error)}
        rows.append({"layout": layout, **row})
        print(rows[-1], flush=True)
    return rows


def _gone_on(rows: Rows) -> dict[str, Any]:
    return {
        "recovered": f"{sum(row['recovered'] for row in rows)} of {len(rows)}",
        "median_seconds_to_next_step": median(row["seconds_to_next_step"] for row in rows),
        "most_seconds_to_next_step": max(row["seconds_to_next_step"] for row in rows),
        "largest_difference": max(row["apart"] for row in rows),
        "orphans": sum(row["orphans"] for row in rows),
    }


def _intact(rows: Rows) -> dict[str, Any]:
    return {
        "intact": f"{sum(row['intact'] for row in rows)} of {len(rows)}",
        "of_which_in_a_save": sum(row["in_a_save"] for row in rows),
        "largest_difference": max(row["apart"] for row in rows),
    }


SUMMARIES = {"rank": _gone_on, "node": _gone_on, "save": _intact}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=20)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--saves", type=int, default=30)
    given = parser.parse_args()
    main(given.ranks, given.nodes, given.saves)
