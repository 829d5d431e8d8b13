"""What `hotlap tune` keeps, calm and under load: the demo and scripts with one planted cause each.

`python -m benchmarks.tune_load [--busy] [--budget 145] [--rounds 1] [SCRIPT...]`. Under `--busy`
ten processes that come and go keep the load average between 4 and 8 on top of what is there. Rows
are added to those of earlier calls of the day, so that it can be run in portions.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.record import folder, write

ROOT = Path(__file__).parent.parent
PLANTED = ROOT / "tests" / "planted"
SCRIPTS = {
    "digits": (ROOT / "examples" / "digits" / "train.py", {"cached_dataset", "loader_workers"}),
    "input_bound": (PLANTED / "input_bound.py", {"cached_dataset", "loader_workers"}),
    "slow_decode": (PLANTED / "slow_decode.py", {"cached_dataset", "loader_workers"}),
    "eval_with_grad": (PLANTED / "eval_with_grad.py", {"no_grad_eval"}),
    "anomaly_on": (PLANTED / "anomaly_on.py", {"debug_off"}),
    "tensor_of_arrays": (PLANTED / "tensor_of_arrays.py", {"no_copy_from_numpy"}),
    "small_transformer": (PLANTED / "small_transformer.py", {"fused_pointwise"}),
}
"""Each script with the techniques any of which removes the cause that is planted in it."""
LONG = ("--steps", "100000")
BURNERS = 10
UNDERSTOOD = (0, 1)


def main(busy: bool, budget: int, rounds: int, names: list[str]) -> None:
    """Tune each script so many times; add the rows to the record of the day."""
    name = f"tune-load-{'busy' if busy else 'calm'}"
    path = folder() / f"{name}.json"
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    for _ in range(rounds):
        for script in names:
            with background_load(BURNERS if busy else 0, seed=len(rows)):
                rows.append(tuned(script, budget))
            print(
                json.dumps({key: rows[-1][key] for key in ("script", "kept", "ratio", "seconds")})
            )
            command = f"python -m benchmarks.tune_load {'--busy ' if busy else ''}--budget {budget}"
            write(name, command, rows, summary(rows))


def tuned(name: str, budget: int) -> dict[str, Any]:
    """One tune, in a folder of its own."""
    path, right = SCRIPTS[name]
    with tempfile.TemporaryDirectory() as place:
        shutil.copy(path, place)
        command = [sys.executable, "-m", "hotlap", "tune", "--json", "--budget", f"{budget}s"]
        begin = time.monotonic()
        train = [sys.executable, path.name, *(LONG if path.parent == PLANTED else ())]
        done = subprocess.run([*command, *train], cwd=place,
                              capture_output=True, text=True, check=False)  # fmt: skip
        seconds = time.monotonic() - begin
    if done.returncode not in UNDERSTOOD:
        return {"script": name, "exit": done.returncode, "error": done.stderr[-500:], "kept": [],
                "ratio": 1.0, "seconds": seconds, "budget": budget, "right": False,
                "confirmed": False, "settled": False}  # fmt: skip
    document = json.loads(done.stdout)
    final = document["final"]
    outcomes = document["outcomes"]
    kept = [row["technique"] for row in outcomes if row["status"] == "kept"]
    return {
        "script": name,
        "exit": done.returncode,
        "kept": kept,
        "right": bool(right & set(kept)),
        "ratio": final["estimate"]["ratio"] if final else 1.0,
        "interval": [final["estimate"]["low"], final["estimate"]["high"]] if final else None,
        "confirmed": document["confirmed"],
        "settled": not any(row["status"] == "inconclusive" for row in outcomes),
        "seconds": seconds,
        "budget": budget,
        "load": document["load"],
        "load_average": os.getloadavg()[0],
        "phases": document["phases"],
        "outcomes": [
            {k: row[k] for k in ("technique", "values", "status", "reason")}
            | {"race": {k: row["race"][k] for k in ("fresh", "estimate", "unit")}}
            for row in outcomes if row["race"]
        ],
    }  # fmt: skip


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """By script: in how many tunes the planted cause was removed, the ratios, the budget used."""
    found = {}
    for name in dict.fromkeys(row["script"] for row in rows):
        mine = [row for row in rows if row["script"] == name]
        found[name] = {
            "tunes": len(mine),
            "right": sum(row["right"] for row in mine),
            "confirmed": sum(row["confirmed"] for row in mine),
            "ratios": [round(row["ratio"], 3) for row in mine],
            "budget_used": [round(row["seconds"] / row["budget"], 3) for row in mine],
        }
    return found


@contextlib.contextmanager
def background_load(processes: int, seed: int) -> Iterator[None]:
    """Other processes that come and go."""
    burners = [
        multiprocessing.Process(target=_burn, args=(100 * seed + number,), daemon=True)
        for number in range(processes)
    ]
    for burner in burners:
        burner.start()
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()


def _burn(seed: int) -> None:
    """Keep a core busy for 0.2 to 3 s, rest as long, and so on."""
    draw = random.Random(seed)
    while True:
        end = time.monotonic() + draw.uniform(0.2, 3.0)
        while time.monotonic() < end:
            sum(range(1000))
        time.sleep(draw.uniform(0.2, 3.0))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--budget", type=int, default=145)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("scripts", nargs="*", choices=[*SCRIPTS, []], default=[])
    given = parser.parse_args()
    main(given.busy, given.budget, given.rounds, given.scripts or list(SCRIPTS))
