"""One side of a comparison, in a process of its own: an epoch for each line on standard input.

`python -m benchmarks.data.side NAME FOLDER`. Answers with a line of JSON: CPU time of the process
tree and wall time, in microseconds a sample.
"""

import json
import os
import sys
import time
from pathlib import Path

import torch

from benchmarks.data.clock import tree_seconds
from benchmarks.data.sides import SIDES


def main(name: str, folder: Path) -> None:
    """Build the side, warm it up, and run epochs as they are asked for."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print does not get between the answers
    torch.set_num_threads(1)
    try:
        side = SIDES[name](folder)
        side.epoch()  # starts processes, compares the checksums of rows
    except ModuleNotFoundError as error:
        print(json.dumps({"absent": f"not installed: {error.name}"}), file=answers, flush=True)
        return
    print(json.dumps({}), file=answers, flush=True)
    for _ in sys.stdin:
        cpu, wall = tree_seconds(), time.perf_counter()
        seen = side.epoch()
        wall = time.perf_counter() - wall
        cpu = tree_seconds() - cpu
        row = {"cpu": cpu / seen * 1e6, "wall": wall / seen * 1e6, "samples": seen}
        print(json.dumps(row), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
