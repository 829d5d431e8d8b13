"""How much processes of one program differ, and what races of them say for that reason.

`python -m benchmarks.launches [LAUNCHES [SECONDS]]`: launches a small training script twice at a
time, runs pairs of blocks for so many seconds whatever they show, every second time while another
process comes and goes on all cores. Each launch is then read as a race of one launch, and every
ordered choice of three launches under the same weather as a race that launches once more for as
long as it has to.
"""

import itertools
import math
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from benchmarks import record
from benchmarks.honesty import itself, weather
from hotlap.trial.side import BLOCK
from hotlap.trial.stats import PairedTest, Verdict
from hotlap.trial.stopping import StoppingRules

Pair = tuple[float, float]
MOST = StoppingRules.launches
CALLS = {Verdict.FASTER, Verdict.SLOWER}


def launch(seconds: float) -> list[Pair]:
    """Seconds a step of A and B, pair by pair."""
    pairs: list[Pair] = []
    with tempfile.TemporaryDirectory() as folder, itself(Path(folder)) as (a, b):
        a.ready()
        pace = b.ready()
        steps = max(1, math.ceil(BLOCK / pace.step))
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            order = (b, a) if len(pairs) % 2 else (a, b)
            took = {id(side): side.block(steps).step for side in order}
            pairs.append((took[id(a)], took[id(b)]))
    return pairs


def read(launches: Sequence[Iterable[Pair]], most_pairs: int) -> Verdict:
    """What a race says that meets these launches one after the other."""
    test, at = PairedTest(launches=len(launches)), iter(launches)
    pairs = iter(next(at))
    for _ in range(most_pairs):
        pair = next(pairs, None)
        if pair is None:
            break
        test.add(*pair)
        if test.settled():
            break
        if test.awaits_launch():
            test.relaunched()
            pairs = iter(next(at))
    return test.verdict()


def main(launches: int, seconds: float) -> None:
    """Run them all and write the record; at least 6, three of each weather."""
    if launches < 2 * MOST:
        raise SystemExit(
            f"benchmarks.launches: {launches} launches are too few, {2 * MOST} the least"
        )
    rows: list[dict[str, Any]] = []
    for index in range(launches):
        busy = index % 2 == 1
        with weather(busy=busy, seed=index):
            rows.append({"busy": busy, "pairs": launch(seconds)})
        test = PairedTest()
        for pair in rows[-1]["pairs"]:
            test.add(*pair)
        rows[-1]["ratio"] = test.estimate().ratio
        print(index, f"busy={busy}", f"{test.estimate().ratio:.3f}", flush=True)
    record.write(
        f"launches-{launches}-{seconds:.0f}s",
        f"python -m benchmarks.launches {launches} {seconds:.0f}",
        rows,
        {"busy" if busy else "quiet": _of(rows, busy=busy) for busy in (False, True)},
    )


def _of(rows: Sequence[dict[str, Any]], *, busy: bool) -> dict[str, Any]:
    mine = [row for row in rows if row["busy"] == busy]
    pairs = [row["pairs"] for row in mine]
    most = 2 * max(map(len, pairs))
    once = [read([one], most) for one in pairs]
    thrice = [read(three, most) for three in itertools.permutations(pairs, MOST)]
    return {
        "launches": len(mine),
        "pairs of a launch": round(fmean(map(len, pairs)), 1),
        "ratio, 1 sd": round(stdev(math.log(row["ratio"]) for row in mine), 4),
        "called by one launch": sum(verdict in CALLS for verdict in once),
        "called by up to three": f"{sum(verdict in CALLS for verdict in thrice)} of {len(thrice)}",
    }


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    main(*given, *(24, 30)[len(given) :])
