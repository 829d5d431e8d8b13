"""Whether a whole run gains what a race says.

`python -m benchmarks.whole_runs [--budget 3m] [--rounds 3] [NAME...]`: tunes a script, and then
runs the program from its start to its end, plain and with a recipe by turns. The recipe is what the
tune confirmed; where it confirmed nothing, it is two loader workers, which a race of plain steps
once flattered. The start of Python and of torch is part of a whole run, so that its ratio may be a
little nearer to 1 than that of the race.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import record

ROOT = Path(__file__).parent.parent
SCRIPTS = {
    "digits": (ROOT / "examples" / "digits" / "train.py", []),
    "folder": (ROOT / "benchmarks" / "scripts" / "folder.py", []),
}
WORKERS = "[techniques.loader_workers]\nnum_workers = 2\n"


def seconds(words: list[str], folder: Path) -> float:
    """What a command takes from its start to its end."""
    begin = time.monotonic()
    subprocess.run(words, cwd=folder, check=True, capture_output=True)
    return time.monotonic() - begin


def row(name: str, budget: str, rounds: int) -> dict[str, Any]:
    """One script: what the tune says, and the whole runs by turns."""
    script, options = SCRIPTS[name]
    hotlap = [sys.executable, "-m", "hotlap"]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shutil.copy(script, folder)
        command = [sys.executable, script.name, *options]
        seconds(command, folder)  # files that the first run writes
        tuned = subprocess.run(
            [*hotlap, "tune", "--budget", budget, "--json", *command],
            cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if not tuned.stdout:
            raise SystemExit(tuned.stderr)
        found = json.loads(tuned.stdout)
        races = [
            {"technique": one["technique"], "values": one["values"], "status": one["status"],
             "unit": one["race"]["unit"], "estimate": one["race"]["estimate"]}
            for one in found["outcomes"] if one["race"]
        ]  # fmt: skip
        if not (folder / "hotlap.toml").exists():
            (folder / "hotlap.toml").write_text(WORKERS)
        with_recipe = [*hotlap, "run", *command]
        turns = [
            [seconds(words, folder) for words in (command, with_recipe)] for _ in range(rounds)
        ]
        final = found["final"]
        return {
            "script": name, "confirmed": found["confirmed"],
            "recipe": (folder / "hotlap.toml").read_text() if found["confirmed"] else WORKERS,
            "race": final["estimate"] if final else None, "rows": races, "whole runs": turns,
            "ratio of whole runs": median(plain / tuned for plain, tuned in turns),
            "load average": os.getloadavg()[0],
        }  # fmt: skip


def main(names: list[str], budget: str, rounds: int) -> None:
    """Each script named, or all; the record is written after each."""
    rows = []
    for name in names or list(SCRIPTS):
        rows.append(row(name, budget, rounds))
        summary = {
            one["script"]: {
                "confirmed": one["confirmed"],
                "race": one["race"] and [one["race"][key] for key in ("ratio", "low", "high")],
                "whole runs": round(one["ratio of whole runs"], 3),
            }
            for one in rows
        }
        record.write(
            "whole_runs", f"python -m benchmarks.whole_runs --budget {budget}", rows, summary
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", choices=[[], *SCRIPTS])
    parser.add_argument("--budget", default="3m")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    main(given.names, given.budget, given.rounds)
