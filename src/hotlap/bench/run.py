"""Measure rows: each in child processes that run the two sides by turns, in pairs."""

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from importlib.util import find_spec
from typing import Any

from hotlap.bench.rows import Measure, Row
from hotlap.core.machine import Machine
from hotlap.trial.stats import LAUNCH_SD, PairedTest
from hotlap.trial.time_ratio import Time, time_ratio

CHILD = "hotlap.bench.workloads"
NO_GAIN = 1.02
"""A ratio whose interval stays below this is no gain worth having."""
FEWEST_PAIRS = 3
"""Pairs of a launch that ran out of time which are taken for a measurement."""
EXTRA_SECONDS = 180.0
"""What a child may take beyond its time: it starts, prepares its data and compiles."""
SHORTEST_ROW_SECONDS = 8.0
"""With less than this left no row begins: importing torch alone takes a part of it."""
FAIR_SHARES = 3.0
"""A row may take so many times its equal part of what is left: most take less than theirs."""


class Finding(StrEnum):
    """What a measurement says of a claim."""

    CONFIRMED = "confirmed"
    SMALLER = "smaller"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"
    NEEDS_GPU = "needs a GPU"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Plan:
    """How long each row is measured: so many launches of so many seconds; `total` for all rows."""

    launches: int = 4
    seconds: float = 6.0
    total: float = math.inf


QUICK = Plan(launches=1, seconds=4.0, total=270.0)


@dataclass(frozen=True)
class Measured:
    """A row with its ratio (A over B: above 1, B is better) and interval; nan where not run."""

    row: Row
    finding: Finding
    device: str = ""
    ratio: float = math.nan
    low: float = math.nan
    high: float = math.nan
    pairs: int = 0
    note: str = ""

    def document(self) -> dict[str, object]:
        """As `--json` prints it."""
        return asdict(self)


def measure_rows(
    rows: Sequence[Row], machine: Machine, plan: Plan, on_row: Callable[[Row], None]
) -> tuple[list[Measured], bool]:
    """Measure rows in turn; with whether Ctrl-C ended that before the last."""
    found: list[Measured] = []
    end = time.monotonic() + plan.total
    waiting = sum(_lacks(row, machine) is None for row in rows)
    try:
        for row in rows:
            on_row(row)
            left = end - time.monotonic()
            own = replace(plan, total=min(left, FAIR_SHARES * left / max(1, waiting)))
            found.append(measure(row, machine, own))
            waiting -= _lacks(row, machine) is None
    except KeyboardInterrupt:
        return found, True
    return found, False


def measure(row: Row, machine: Machine, plan: Plan) -> Measured:
    """Measure one row, if this machine can and the time suffices."""
    lacking = _lacks(row, machine)
    if lacking is not None:
        return lacking
    device = "cuda" if machine.gpus and not row.cpu_only else "cpu"
    if plan.total < SHORTEST_ROW_SECONDS:
        note = f"no time was left: hotlap bench --quick --only {row.id}"
        return Measured(row, Finding.NOT_RUN, device, note=note)
    pairs: list[list[list[object]]] = []
    for launch in range(plan.launches):
        lines, failure = _child(row, device, plan, launch)
        if failure:
            return Measured(row, Finding.NOT_RUN, device, note=failure)
        pairs.append(lines)
    ratio, low, high = _ratio(row, pairs)
    count = sum(map(len, pairs))
    return Measured(row, judge(row, low, high), device, ratio, low, high, count)


def _lacks(row: Row, machine: Machine) -> Measured | None:
    """What this machine lacks for the row, as its outcome."""
    if len(machine.gpus) < row.gpus:
        needed = "a CUDA device" if row.gpus == 1 else f"{row.gpus} CUDA devices"
        return Measured(row, Finding.NEEDS_GPU, note=f"needs {needed}")
    if row.needs and find_spec(row.needs) is None:
        return Measured(row, Finding.NOT_RUN, note=f"needs pip install {row.needs}")
    return None


def judge(row: Row, low: float, high: float) -> Finding:
    """What an interval says of a claim: whether there is a gain, and whether it can be the claimed.

    A claim that the interval reaches is confirmed. One without a figure is confirmed by any gain.
    """
    if high < NO_GAIN:
        return Finding.REFUTED
    if low <= 1.0:
        return Finding.INCONCLUSIVE
    return Finding.CONFIRMED if high >= row.claimed else Finding.SMALLER


def _child(row: Row, device: str, plan: Plan, launch: int) -> tuple[list[list[object]], str]:
    """The pairs that one launch measured, or why there are none."""
    words = [row.workload, device, row.measure, str(plan.seconds), str(launch)]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    with tempfile.TemporaryDirectory(prefix="hotlap-bench-") as folder:
        try:
            done = subprocess.run(
                [sys.executable, "-m", CHILD, *words], cwd=folder, env=environment, text=True,
                capture_output=True, timeout=min(plan.seconds + EXTRA_SECONDS, plan.total),
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as late:
            lines = _pairs(bytes(late.stdout or b"").decode())
            return lines, "" if len(lines) >= FEWEST_PAIRS else "it did not come to an end"
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        return [], f"it failed: {last}"
    return _pairs(done.stdout), ""


def _pairs(output: str) -> list[list[object]]:
    """The pairs of a child's output; a line that was cut off is none."""
    return [json.loads(line) for line in output.splitlines()
            if line.startswith("[[") and line.endswith("]]")]  # fmt: skip


def _ratio(row: Row, launches: Sequence[Sequence[Any]]) -> tuple[float, float, float]:
    """A over B with its interval, by the statistics of races."""
    if row.measure is Measure.TIME_TO_TARGET:
        times = [(Time(*a), Time(*b)) for launch in launches for a, b in launch]
        found = time_ratio(times)
        return found.ratio, found.low, found.high
    several = row.measure is Measure.TIME
    test = PairedTest(launch_sd=LAUNCH_SD if several else 0.0)
    for number, launch in enumerate(launches):
        if number:
            test.relaunched()
        for (a, _), (b, _) in launch:
            test.add(a, b)
    estimate = test.estimate()
    if row.measure is Measure.MEMORY:  # counted, not timed: it does not vary
        return estimate.ratio, estimate.ratio, estimate.ratio
    return estimate.ratio, estimate.low, estimate.high
