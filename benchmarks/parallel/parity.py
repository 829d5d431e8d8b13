"""The whole table of compositions against one process: `python -m benchmarks.parallel.parity`.

Each row trains the small GPT of the tests for 10 steps, once by plain torch in one process and once
on 2, 4 or 8 ranks over Gloo. The record has the largest difference of any step, rank and parameter.
"""

import sys
import time
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "tests"))


def main() -> None:
    """Run every row, and write the record."""
    from benchmarks.record import write
    from parallel import table

    begin = time.perf_counter()
    rows = [_row(one) for one in table.ALL]
    double = [row for row in rows if row["dtype"] == "float64"]
    single = [row for row in rows if row["dtype"] == "float32"]
    summary = {
        "rows": len(rows),
        "float64 loss, largest difference": max(row["loss"] for row in double),
        "float64 norm, largest relative difference": max(row["norm"] for row in double),
        "float64 parameters, largest difference": max(row["parameters"] for row in double),
        "float32 loss, largest difference": max(row["loss"] for row in single),
        "seconds": round(time.perf_counter() - begin),
    }
    write("parallel_parity", "python -m benchmarks.parallel.parity", rows, summary)


def _row(one: Any) -> dict[str, Any]:
    from parallel import farm, parity

    begin = time.perf_counter()
    found = parity.differences(parity.alone(one), farm.run(one.world, parity.rank, one))
    row = {
        "name": one.name,
        "ranks": one.world,
        "dtype": str(one.dtype).removeprefix("torch."),
        "steps": one.steps,
        "layout": one.parallelism.to_toml().splitlines()[1:],
        "clip": one.clip,
        "accumulate": one.accumulate,
        "optimizer": one.optimizer,
        **found,
        "seconds": round(time.perf_counter() - begin, 1),
    }
    print(f"{row['ranks']} {row['name']}: loss {row['loss']:.1e} {row['seconds']} s", flush=True)
    return row


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
