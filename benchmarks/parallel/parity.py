"""The table of compositions against one process: `python -m benchmarks.parallel.parity [GROUP...]`.

Each row trains the small GPT of the tests for 10 steps, once by plain torch in one process and once
on 2, 4 or 8 ranks over Gloo. The record has the largest difference of any step, rank and parameter.
"""

import datetime
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch

NAME = "parallel_parity"
sys.path.insert(0, str(Path(__file__).parent.parent.parent / "tests"))


GROUPS = ("TWO", "FOUR", "EIGHT", "OPTIMIZERS", "SINGLE")


def main(groups: list[str]) -> None:
    """Run every row of some groups; the day's record keeps those of the others."""
    from parallel import table

    for group in groups:
        _record([_row(one, group) for one in getattr(table, group)])


def _record(rows: list[dict[str, Any]]) -> None:
    from benchmarks import record

    new = {(row["group"], row["name"]): row for row in rows}
    rows = [row for row in _before() if (row["group"], row["name"]) not in new] + rows
    single = [row for row in rows if row["dtype"] == "float32"]
    double = [row for row in rows if row["dtype"] == "float64"]
    summary = {
        "rows": len(rows),
        "groups": sorted({row["group"] for row in rows}),
        "float64 loss, largest difference": _most(double, "loss"),
        "float64 norm, largest relative difference": _most(double, "norm"),
        "float64 parameters, largest difference": _most(double, "parameters"),
        "float32 loss, largest difference": _most(single, "loss"),
        "seconds": round(sum(row["seconds"] for row in rows)),
    }
    record.write(NAME, "python -m benchmarks.parallel.parity", rows, summary)


def _before() -> list[dict[str, Any]]:
    from benchmarks import record
    from hotlap.core.machine import detect

    folder = f"{datetime.date.today().isoformat()}-{detect().fingerprint}"
    path = record.RESULTS / folder / f"{NAME}.json"
    return list(json.loads(path.read_text())["rows"]) if path.exists() else []


def _most(rows: list[dict[str, Any]], what: str) -> float | None:
    return max((row[what] for row in rows), default=None)


def _row(one: Any, group: str) -> dict[str, Any]:
    from parallel import farm, parity

    begin = time.perf_counter()
    found = parity.differences(parity.alone(one), farm.run(one.world, parity.rank, one))
    row = {
        "group": group,
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
    main(sys.argv[1:] or list(GROUPS))
