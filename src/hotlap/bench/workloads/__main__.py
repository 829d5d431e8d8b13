"""`python -m hotlap.bench.workloads MODULE:NAME DEVICE MEASURE SECONDS LAUNCH`: pairs, a line each.

A line is `[[a, reached], [b, reached]]`. Which side runs first alternates.
"""

import importlib
import json
import sys
import time
from collections.abc import Callable

import torch

from hotlap.bench.rows import Measure
from hotlap.bench.workloads import Outcome, Sides

SHORTEST_SECONDS = 0.03
"""A timed block is repeated until it takes so long: timers and the scheduler count less."""
FEWEST_PAIRS = 6
SEEDS_A_LAUNCH = 5


def main() -> None:
    """Run the pairs of one launch."""
    where, device, measure, seconds, launch = sys.argv[1:]
    module, _, name = where.partition(":")
    torch.manual_seed(int(launch))
    sides: Sides = getattr(importlib.import_module(f"{__package__}.{module}"), name)(device)
    if measure != Measure.TIME:
        counted = 1 if measure == Measure.MEMORY else SEEDS_A_LAUNCH
        for seed in range(counted):
            print(json.dumps([sides.a(seed), sides.b(seed)]), flush=True)
        return
    sides.a(0), sides.b(0)
    repeats = _repeats(sides.a, device)
    begin = time.perf_counter()
    pair = 0
    while pair < FEWEST_PAIRS or time.perf_counter() - begin < float(seconds):
        order = ("a", "b") if pair % 2 else ("b", "a")
        took = {side: _timed(getattr(sides, side), device, repeats) for side in order}
        print(json.dumps([[took["a"], True], [took["b"], True]]), flush=True)
        pair += 1


def _repeats(run: Callable[[int], Outcome], device: str) -> int:
    once = min(_timed(run, device, 1) for _ in range(2))
    return max(1, round(SHORTEST_SECONDS / once))


def _timed(run: Callable[[int], Outcome], device: str, repeats: int) -> float:
    begin = time.perf_counter()
    for _ in range(repeats):
        run(0)
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
