"""How long a block of a race should be: the same seconds of racing in blocks of several lengths.

`python -m benchmarks.blocks [--seconds 12] [--kinds mlp,cnn,gpt,variable] [--planted 1.0]`:
launches a script twice, or once and once slowed down, and runs pairs of blocks of each length in
LENGTHS by turns, two seconds at a time. What counts is the half-width of the interval that each
length has after so many seconds of racing, pausing and resuming included, and that all give the
same ratio.
"""

import argparse
import math
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import record
from benchmarks.honesty import sides
from hotlap.trial.side import Side
from hotlap.trial.stats import PairedTest

LENGTHS = (0.03, 0.1, 0.3, 1.0)
TURN_SECONDS = 2.0


def raced(a: Side, b: Side, seconds: float) -> dict[float, PairedTest]:
    """What pairs of blocks of each length show."""
    step = math.sqrt(a.ready().step * b.ready().step)
    tests = {length: PairedTest() for length in LENGTHS}
    spent = dict.fromkeys(LENGTHS, 0.0)
    while min(spent.values()) < seconds:
        length = min(spent, key=lambda each: spent[each])
        behind, ahead = sorted((a, b), key=lambda side: side.at)
        if ahead.at > behind.at:
            behind.catch_up(ahead.at - behind.at)
        spent[length] += turn(a, b, max(1, math.ceil(length / step)), tests[length])
    return tests


def turn(a: Side, b: Side, steps: int, test: PairedTest) -> float:
    """Pairs of blocks for two seconds; what they took."""
    begin, order = time.monotonic(), [a, b]
    while (spent := time.monotonic() - begin) < TURN_SECONDS:
        order.reverse()
        blocks = {id(side): side.block(steps) for side in order}
        one, two = blocks[id(a)], blocks[id(b)]
        test.add(one.plain_step, two.plain_step, one.stretch, two.stretch)
    return spent


def main(seconds: float, kinds: Sequence[str], planted: float) -> None:
    """Race each kind once, and add it to the day's record."""
    name = "blocks" if planted == 1.0 else f"blocks-{planted:g}x"
    rows: list[dict[str, Any]] = record.rows(name)
    for kind in kinds:
        with tempfile.TemporaryDirectory() as folder, sides(
            Path(folder), kind, (1.0, planted)
        ) as (a, b):  # fmt: skip
            a.start()
            b.start()
            tests = raced(a, b, seconds)
        rows.append(
            {
                "kind": kind,
                "lengths": {
                    f"{length:g} s": {
                        "ratio": math.exp(test.interval().centre),
                        "half-width (log)": test.interval().half,
                        "pairs": test.pairs_of_launch,
                    }
                    for length, test in tests.items()
                },
            }
        )
        halves = {
            f"{length:g} s": round(
                median(row["lengths"][f"{length:g} s"]["half-width (log)"] for row in rows), 4
            )
            for length in LENGTHS
        }
        command = f"python -m benchmarks.blocks --seconds {seconds:g} --planted {planted:g}"
        record.write(name, command, rows, {"half-width (log), median of the kinds": halves})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--kinds", default="mlp,cnn,gpt,variable")
    parser.add_argument("--planted", type=float, default=1.0)
    given = parser.parse_args()
    main(given.seconds, given.kinds.split(","), given.planted)
