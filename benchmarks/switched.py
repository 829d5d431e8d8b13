"""By how much the gain of a technique that is switched on in a live process differs by launch.

`python -m benchmarks.switched [--launches 6] [--seconds 12] [--kinds mlp,cnn,gpt] [--between]`: in
each launch of a script every technique of TECHNIQUES is raced by switching it on and off. The first
does nothing on a CPU: its ratio is that of a process with itself. The spread of a technique's log
ratios, less what the noise of the pairs explains, is what `SWITCH_SD` in hotlap.trial.switched
stands for. With `--between` each is raced as well between two processes, one of which has it from
its first step on: the mean over the launches is to be the same.
"""

import argparse
import math
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median, variance
from typing import Any

from benchmarks import record
from benchmarks.honesty import sides
from hotlap.trial.side import block_size
from hotlap.trial.stats import Estimate, PairedTest
from hotlap.trial.stopping import StoppingRules
from hotlap.trial.switched import race_switched

TECHNIQUES: dict[str, dict[str, object]] = {
    "tf32": {"precision": "high"},
    "fused_optimizer": {},
    "mixed_precision": {"dtype": "bfloat16"},
}


def between(kind: str, seconds: float, name: str, values: dict[str, object]) -> dict[str, Any]:
    """One launch of two processes, one with a technique from its first step on: a row."""
    test = PairedTest(launch_sd=0.0)
    with tempfile.TemporaryDirectory() as folder, sides(Path(folder), kind, (1, 1)) as (a, b):
        b.setting = b.setting.having({name: values})
        b.start()
        size = block_size(a.ready(), b.ready(), 0.0).steps
        end = time.monotonic() + seconds
        order = [a, b]
        while time.monotonic() < end:
            order.reverse()
            blocks = {id(side): side.block(size) for side in order}
            one, two = blocks[id(a)], blocks[id(b)]
            test.add(one.plain_step, two.plain_step, one.stretch, two.stretch)
    return row(kind, name, test.estimate(), "", between=True)


def row(kind: str, name: str, found: Estimate, verdict: str, *, between: bool) -> dict[str, Any]:
    """What one race showed."""
    return {
        "kind": kind,
        "technique": f"{name}, between processes" if between else name,
        "log ratio": math.log(found.ratio),
        "half-width (log)": math.log(found.high / found.low) / 2,
        "pairs": found.pairs,
        "verdict": verdict,
        "load average": os.getloadavg()[0],
    }


def launch(kind: str, seconds: float) -> list[dict[str, Any]]:
    """One launch: a row for each technique."""
    rules = StoppingRules(
        seconds=seconds, precision=0.0, launches=1, plain_steps=True, max_pairs=10**6
    )
    rows = []
    with tempfile.TemporaryDirectory() as folder, sides(Path(folder), kind, (1, 1)) as (side, _):
        for name, values in TECHNIQUES.items():
            found = race_switched(side, {name: values}, rules)
            rows.append(row(kind, name, found.estimate, found.verdict, between=False))
    return rows


def spread(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The ratio of a technique, and the standard deviation of its launches."""
    ratios = [row["log ratio"] for row in rows]
    return {
        "launches": len(rows),
        "ratio": round(math.exp(fmean(ratios)), 4),
        "sd of the launches (log)": round(math.sqrt(variance(ratios)), 4) if rows[1:] else None,
        "half-width of one (log), median": round(median(r["half-width (log)"] for r in rows), 4),
        "called": sum(row["verdict"] in {"faster", "slower"} for row in rows),
    }


def main(launches: int, seconds: float, kinds: Sequence[str], *, processes: bool) -> None:
    """Launch each kind so often, and add the races to the day's record.

    `processes`: race between processes, too.
    """
    rows = record.rows("switched")
    for _ in range(launches):
        for kind in kinds:
            rows += launch(kind, seconds)
            if processes:
                rows += [between(kind, seconds, *each) for each in TECHNIQUES.items()]
            names = sorted({(row["kind"], row["technique"]) for row in rows})
            summary = {
                " ".join(name): spread([r for r in rows if (r["kind"], r["technique"]) == name])
                for name in names
            }
            command = f"python -m benchmarks.switched --seconds {seconds:g}"
            record.write("switched", command, rows, summary, quiet=True)
    for name, found in summary.items():
        print(name, found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--launches", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--kinds", default="mlp,cnn,gpt")
    parser.add_argument("--between", action="store_true")
    given = parser.parse_args()
    main(given.launches, given.seconds, given.kinds.split(","), processes=given.between)
