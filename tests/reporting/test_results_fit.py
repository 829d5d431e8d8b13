"""The results of long verbs in terminals of 40, 80 and 140 columns."""

from collections.abc import Callable

import pytest
from rich.console import Console

from hotlap.batch.batch_result import BatchFacts, BatchResult, SizeResult
from hotlap.bench.rows import ROWS
from hotlap.bench.run import Finding, Measured
from hotlap.reporting import batch_text, bench_text, bisect_text, compare_text, race_text
from hotlap.reporting.compare_text import Comparison, Row
from hotlap.reporting.shrink_text import Found
from hotlap.reporting.shrink_text import show as show_shrunk
from hotlap.trial.bisect import Bisection, Speed, Step
from hotlap.trial.race import RaceResult
from hotlap.trial.revisions import Commit
from hotlap.trial.stats import Estimate, Verdict

COMMAND = ("python", "train.py", *(f"--option-{n}=value" for n in range(8)))
ESTIMATE = Estimate(1.1, 1.04, 1.16, 14, 0.95)
RACE = RaceResult(ESTIMATE, Verdict.FASTER, "epoch", True, 0.02, 0.018, 1.1, 1.0, 0, 0, 9)
SIZES = {
    32: SizeResult(32, True, 100.0, 1.0, 1.0, 1.0, 0.32, 2**29, samples=32),
    64: SizeResult(64, True, 150_000.0, 1.5, 1.4, 1.6, 0.42, 2**30, samples=63_000),
    128: SizeResult(128, fits=False, why="RuntimeError: " + "out of memory " * 9),
}
NAMES = ("quantise int8", "prune to 0.25x + fine-tune + quantise int8_dynamic")
SHRUNK = [
    {"name": name, "latency": [6.04, 3.01, 12.1], "bytes": 85_000, "parameters": 21_000,
     "qualities": [74.1, 73.9, 74.3], "fails": ["latency", "quality"]}
    for name in NAMES
]  # fmt: skip


def batch(out: Console) -> None:
    found = BatchResult(BatchFacts(32), SIZES, 64, 64, "memory: out of memory", (64,))
    batch_text.show(out, found, brief=False)


def race(out: Console) -> None:
    race_text.show(out, RACE, (COMMAND, COMMAND))


def bench(out: Console) -> None:
    found = [Measured(row, Finding.SMALLER, "cpu", 1.12, 1.02, 1.34, 9) for row in ROWS]
    bench_text.show(out, found, brief=False)


def bisect(out: Console) -> None:
    commit = Commit("0123456789abcdef", "a subject of several words that says what changed here")
    steps = (Step(commit, Speed.SLOW, 0.8, 0.7, 0.9, "the interval stayed too wide"),)
    bisect_text.show(out, Bisection((commit,), steps), commit, commit, brief=False)


def compare(out: Console) -> None:
    rows = tuple(Row(f"memory: {'owner ' * n}", "bytes", 2e9, 1e6) for n in range(1, 5))
    compare_text.show(out, Comparison("profile", rows, ("a note",)), brief=False)


def shrink(out: Console) -> None:
    found = Found({"lower_is_better": False}, candidates={str(row["name"]): row for row in SHRUNK})
    found.original = {"parameters": 85_000, "bytes": 334_000, "milliseconds": 1.0, "quality": 75.0}
    show_shrunk(out, found, brief=False)


KEPT = {
    batch: ["150,000", "1.50x (1.40 to 1.60)", "420.0 ms", "1.00 GiB", "out of memory"],
    race: ["20.0 ms", "18.0 ms", "--option-7=value", "1.10x [1.04, 1.16]"],
    bench: [*(row.id for row in ROWS), "1.12x [1.02, 1.34]", "smaller"],
    bisect: ["012345678", "0.80x", "[0.70, 0.90]", "too wide", "what changed here"],
    compare: ["1.9 GiB", "976.6 KiB", "2000.00x"],
    shrink: [*NAMES, "6.04x [3.01, 12.10]", "0.25x", "misses latency, quality"],
}


@pytest.mark.parametrize("show", KEPT, ids=lambda show: show.__name__)
@pytest.mark.parametrize("width", [50, 80, 140])
def test_nothing_is_wrapped_or_cut(width: int, show: Callable[[Console], None]) -> None:
    out = Console(width=width, height=24, force_terminal=False, highlight=False)
    with out.capture() as capture:
        show(out)
    lines = capture.get().splitlines()
    assert max(map(len, lines)) <= max(width, 66), "a plot of shrink takes 66 columns"
    words = " ".join(capture.get().split())
    assert [kept for kept in KEPT[show] if kept not in words] == []
    assert "…" not in words
