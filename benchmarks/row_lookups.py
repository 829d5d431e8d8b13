"""Picking rows by `x[index]`, and by `x.index_select(0, index)`.

`python -m benchmarks.row_lookups [--seconds 1]`: for matrices and numbers of rows as graph
networks, language models and loops over data in memory have them, both run by turns, forwards and
backwards, on one thread and on all cores, with threads that sleep while they wait. `seam.rows`
replaces `Tensor.__getitem__` for it: `served` is its own ratio with that included, and `other` what
it adds to indexing by a number. Times are medians.
"""

import argparse
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from statistics import median
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from benchmarks import record
from hotlap.seam.moves import Context
from hotlap.seam.rows import LEAST_BYTES, LEAST_BYTES_DIFFERENTIATED, index_select

SHAPES = (
    (64, 64, 16), (8000, 256, 24), (2000, 400, 64), (2000, 1100, 64), (2708, 10556, 16),
    (10000, 100000, 64), (32000, 4096, 256), (961, 240100, 8), (60000, 64, 784), (60000, 64, 3072),
)  # fmt: skip
"""Rows and columns around the number of rows that are picked: (rows, picked, columns)."""
Row = dict[str, float | int]
Shape, Made = TypeVar("Shape"), TypeVar("Made")
SeenRow = TypeVar("SeenRow", bound="Seen")


class _Silent:
    """Takes note of nothing."""

    def held(self, name: str, note: str = "") -> None:
        """The technique has acted."""

    def inert(self, name: str, reason: str) -> None:
        """The technique cannot act."""


def by_turns(calls: dict[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Median seconds of each call."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(times[next(iter(calls))]) < 9:
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - begin)
    return {name: median(found) for name, found in times.items()}


def measured(rows: int, picked: int, columns: int, seconds: float) -> Row:
    """Ratios of `x[index]` to the others, above 1 where these are faster."""
    x = torch.randn(rows, columns, requires_grad=True)
    index = torch.randint(0, rows, (picked,))
    gradient = torch.randn(picked, columns)
    plain, selected = x[index], x.index_select(0, index)

    def backward(made: Tensor) -> Callable[[], object]:
        return lambda: torch.autograd.grad(made, x, gradient, retain_graph=True)

    getitem = torch.Tensor.__getitem__
    detached = x.detach()
    with ExitStack() as stack:
        stack.enter_context(index_select(Context("index_select", {}, _Silent())))  # type: ignore[arg-type]
        ours = torch.Tensor.__getitem__
    forward = by_turns(
        {"index": lambda: getitem(detached, index), "ours": lambda: ours(detached, index),
         "select": lambda: detached.index_select(0, index)}, seconds,
    )  # fmt: skip
    back = by_turns({"index": backward(plain), "select": backward(selected)}, seconds)
    other = by_turns({"plain": lambda: getitem(x, 1), "ours": lambda: ours(x, 1)}, seconds / 4)
    return {
        "rows": rows, "picked": picked, "columns": columns, "threads": torch.get_num_threads(),
        "bytes": picked * columns * 4, "forward": forward["index"] / forward["select"],
        "served": forward["index"] / forward["ours"], "backward": back["index"] / back["select"],
        "whole": (forward["index"] + back["index"]) / (forward["ours"] + back["select"]),
        "other": other["ours"] - other["plain"], "seconds": forward["index"] + back["index"],
    }  # fmt: skip


def on_threads(shapes: Iterable[Shape], measure: Callable[[Shape], Made]) -> list[Made]:
    """What is measured of each shape, on one thread and on all cores."""
    found: list[Made] = []
    for threads in sorted({1, os.cpu_count() or 1}):
        torch.set_num_threads(threads)
        for shape in shapes:
            found.append(measure(shape))
            print(found[-1], flush=True)
    return found


class Seen(Protocol):
    """What was measured of one case."""

    @property
    def seen(self) -> bool:
        """Whether a profile names it."""


def write_seen(
    name: str, rows: Sequence[SeenRow], ratios: Mapping[str, Callable[[SeenRow], float]]
) -> None:
    """Write the record of a benchmark of this name: each ratio's spread, by what is seen."""
    summary: dict[str, object] = {
        f"{title}, {words}": record.spread([ratio(row) for row in rows if row.seen is seen])
        for words, seen in (("seen", True), ("not seen", False))
        for title, ratio in ratios.items()
    }
    summary["load average"] = os.getloadavg()[0]
    document = [asdict(row) for row in rows]  # type: ignore[call-overload]
    record.write(name, f"python -m benchmarks.{name}", document, summary)


def seconds_given(default: float) -> float:
    """The option `--seconds`; from here on threads sleep while they wait."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=default)
    return float(parser.parse_args().seconds)


def main(seconds: float) -> None:
    """Measure all shapes, and write the record."""
    torch.manual_seed(0)
    found = on_threads(SHAPES, lambda shape: measured(*shape, seconds))
    once = [row["served"] for row in found if row["bytes"] >= LEAST_BYTES]
    both = [row["whole"] for row in found if row["bytes"] >= LEAST_BYTES_DIFFERENTIATED]
    summary = {
        "forward": record.spread(once),
        "forward and backward": record.spread(both),
        "seconds added to other indexing": median(row["other"] for row in found),
        "load average": os.getloadavg()[0],
    }
    record.write("row_lookups", "python -m benchmarks.row_lookups", found, summary)


if __name__ == "__main__":
    main(seconds_given(1.0))
