"""How much processes of one program differ, and whether it matters that OpenMP threads sleep.

`python -m benchmarks.launches [--launches 8] [--seconds 8] [--kinds mlp,gpt] [--passive]`: launches
a script twice at a time, runs pairs of blocks for so many seconds, and takes from each launch the
log ratio, corrected for the waits for a core, and what a step cost: page faults and CPU time. The
spread of the launches, less what the noise of the pairs explains, is what `LAUNCH_SD` in
hotlap.trial.stats stands for. With `--passive` B runs with a passive OpenMP wait policy and A
without: on a calm machine, what that policy costs.
"""

import argparse
import math
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, variance
from typing import Any

from benchmarks import record
from benchmarks.honesty import sides
from hotlap.trial.side import BLOCK
from hotlap.trial.stats import PairedTest
from hotlap.trial.trial import step_cost


def launch(kind: str, seconds: float, *, passive: bool) -> dict[str, Any]:
    """One launch of both sides: the pairs (times and stretches of A and B), and what they show."""
    test, uncorrected, pairs = PairedTest(), PairedTest(), []
    costs: dict[str, list[dict[str, float]]] = {"A": [], "B": []}
    with (
        tempfile.TemporaryDirectory() as folder,
        sides(Path(folder), kind, (1.0, 1.0), passive=passive) as (a, b),
    ):
        a.ready()
        steps = max(1, math.ceil(BLOCK / b.ready().step))
        behind, ahead = sorted((a, b), key=lambda side: side.at)
        if ahead.at > behind.at:
            behind.catch_up(ahead.at - behind.at)
        end = time.monotonic() + seconds
        while time.monotonic() < end or len(pairs) < 6:
            order = (b, a) if len(pairs) % 2 else (a, b)
            blocks = {id(side): side.block(steps) for side in order}
            one, two = blocks[id(a)], blocks[id(b)]
            pairs.append((one.plain_step, two.plain_step, one.stretch, two.stretch))
            for name, block in zip(costs, (one, two), strict=True):
                costs[name].append(step_cost([block])._asdict())
            test.add(*pairs[-1])
            uncorrected.add(*pairs[-1][:2])
    now = test.interval()
    return {
        "kind": kind,
        "load average": os.getloadavg()[0],
        "log ratio": now.centre,
        # The interval's half-width is about three standard errors.
        "standard error": now.within / 3,
        "narrowed by the waits": uncorrected.interval().within / now.within,
        "wait policy": os.environ.get("OMP_WAIT_POLICY", ""),
        "cost of a step": {
            name: {part: fmean(one[part] for one in blocks) for part in blocks[0]}
            for name, blocks in costs.items()
        },
        "pairs": pairs,
    }


def _group(row: dict[str, Any]) -> tuple[str, str]:
    return row["kind"], row["wait policy"]


def spread(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Mean, and the standard deviation of the launches, with and without the pairs' noise."""
    ratios = [row["log ratio"] for row in rows]
    noise = fmean(row["standard error"] ** 2 for row in rows)
    seen = variance(ratios) if len(ratios) > 1 else 0.0
    return {
        "launches": len(rows),
        "mean log ratio": round(fmean(ratios), 4),
        "its standard error": round(math.sqrt(seen / len(rows)), 4),
        "sd of the launches": round(math.sqrt(seen), 4),
        "less the noise": round(math.sqrt(max(0.0, seen - noise)), 4),
        "standard error of a launch": [round(row["standard error"], 4) for row in rows],
        "narrowed by the waits": [round(row["narrowed by the waits"], 2) for row in rows],
        "load average": [round(row["load average"], 1) for row in rows],
        "page faults a step": [
            [round(side["faults"]) for side in row["cost of a step"].values()]
            for row in rows
            if "cost of a step" in row
        ],
    }


def main(launches: int, seconds: float, kinds: Sequence[str], *, passive: bool) -> None:
    """Launch each kind so often, and add them to the day's record."""
    name = "launches-passive" if passive else "launches"
    command = f"python -m benchmarks.launches --seconds {seconds:g}" + " --passive" * passive
    rows = record.rows(name)
    for _ in range(launches):
        for kind in kinds:
            rows.append(launch(kind, seconds, passive=passive))
            print(kind, f"{rows[-1]['log ratio']:+.4f}", flush=True)
            by_kind = {
                " ".join(each).strip(): spread([row for row in rows if _group(row) == each])
                for each in sorted({_group(row) for row in rows})
            }
            record.write(name, command, rows, by_kind, quiet=True)
    print(by_kind)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--launches", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--kinds", default="mlp,gpt")
    parser.add_argument("--passive", action="store_true")
    given = parser.parse_args()
    main(given.launches, given.seconds, given.kinds.split(","), passive=given.passive)
