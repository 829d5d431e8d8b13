"""What `hotlap run` and `hotlap profile` cost a step: paired blocks of one loop with and without.

`python -m benchmarks.lightness [PROCESSES [SECONDS [run|profile|hook]]]`: so many pairs of
processes a figure, each timed for about so many seconds. The loop times itself, so that nothing of
hotlap is needed to time it. Blocks are short, so that both of a pair see the same weather. Two
processes of one program differ by some percent for as long as they live, in where their memory
lies: so both run on a heap shaken at random (`benchmarks/shaken.py`) with malloc's thresholds
fixed, there are many pairs of processes, and what they say apart makes the interval (Student's t
over the logarithms of their medians). All run on one core, with whatever hotlap does beside them.

All that `run` with an empty recipe leaves in a step is one hook behind the optimizer (a test in
`tests/seam/test_session.py`). What it costs is also measured within one process, where nothing else
differs: by blocks with the hook and without (`hook`).
"""

import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from scipy.stats import t

from benchmarks import record
from benchmarks.cores import one_core
from benchmarks.shaken import HEAP, SHAKEN

STEPPER = Path(__file__).with_name("stepper.py")
SIZES = {"0.5 ms": ("64", "32"), "20 ms": ("1024", "256")}
VERBS = {"run": ["run", "-q"], "profile": ["profile", "--steps", "all"]}
BLOCK = 0.06
WARM = 1.0
FEWEST_WARM = 80

Pair = tuple[float, float]
Block = Callable[[int], float]
"""Runs so many steps; returns seconds a step."""


class Loop:
    """One process of the loop, below `prefix`."""

    def __init__(self, prefix: list[str], size: tuple[str, str], folder: str) -> None:
        self.process = subprocess.Popen(
            [*prefix, sys.executable, SHAKEN, str(STEPPER), *size],
            cwd=folder,
            env={**os.environ, **HEAP, "PYTHONHASHSEED": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def block(self, steps: int, how: str = "") -> float:
        """Seconds a step over so many steps; `how` as the loop takes it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{steps} {how}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline()) / steps

    def end(self) -> None:
        """End of input ends the loop."""
        self.process.communicate(timeout=120)


@contextmanager
def loops(verb: list[str], size: tuple[str, str]) -> Iterator[tuple[Loop, Loop]]:
    """The plain loop and the loop below a verb, both warm."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "hotlap.toml").write_text("")
        plain = Loop([], size, folder)
        under = Loop([sys.executable, "-m", "hotlap", *verb], size, folder)
        step = min(loop.block(FEWEST_WARM) for loop in (plain, under))
        for loop in (plain, under):
            loop.block(math.ceil(WARM / step))
        yield plain, under
        plain.end()
        under.end()


def pairs(plain: Block, under: Block, seconds: float) -> Iterator[Pair]:
    """Seconds a step of both, block by block; which one goes first alternates."""
    steps = max(1, math.ceil(BLOCK / plain(FEWEST_WARM)))
    end, first = time.monotonic() + seconds, False
    while time.monotonic() < end:
        first = not first
        order = (plain, under) if first else (under, plain)
        took = {block: block(steps) for block in order}
        yield took[plain], took[under]


def cost(
    verb: str, size: str, processes: int, seconds: float, *, hook: bool = False
) -> dict[str, Any]:
    """Race the plain loop against the loop below a verb; with `hook`, the latter without its hook.

    Without its hook it is the same process, and stands for the plain loop.
    """
    rows: list[list[Pair]] = []
    for _ in range(processes):
        with loops(VERBS[verb], SIZES[size]) as (plain, under):
            base = partial(under.block, how="bare") if hook else plain.block
            rows.append(list(pairs(base, under.block, seconds)))
    return {**estimate(rows), "rows": rows}


def estimate(rows: list[list[Pair]]) -> dict[str, Any]:
    """What a step costs as a ratio, its 95 % interval, and the plain step in seconds."""
    logs = [median(math.log(under / plain) for plain, under in row) for row in rows]
    half = float(t.ppf(0.975, len(logs) - 1)) * stdev(logs) / math.sqrt(len(logs))
    centre = fmean(logs)
    return {
        "cost": round(math.exp(centre), 4),
        "interval": [round(math.exp(centre - half), 4), round(math.exp(centre + half), 4)],
        "processes": [round(math.exp(log), 4) for log in logs],
        "step": median(plain for row in rows for plain, _ in row),
    }


@one_core()
def main(processes: int, seconds: float, part: str = "") -> None:
    """Measure both verbs at both sizes, or one of them, or the hook alone."""
    each = (processes, seconds)
    if part == "hook":
        rows = {"run, 0.5 ms step, its hook alone": cost("run", "0.5 ms", *each, hook=True)}
    else:
        verbs = [part] if part else list(VERBS)
        rows = {f"{v}, {size} step": cost(v, size, *each) for v in verbs for size in SIZES}
    summary = {name: {k: v for k, v in row.items() if k != "rows"} for name, row in rows.items()}
    raw = {name: row["rows"] for name, row in rows.items()}
    command = f"python -m benchmarks.lightness {processes} {seconds:g} {part}".strip()
    record.write(f"lightness-{part}".strip("-"), command, raw, summary)


if __name__ == "__main__":
    given = sys.argv[1:3]
    number, length = (*map(float, given), *(20.0, 2.0)[len(given) :])
    main(int(number), length, *sys.argv[3:])
