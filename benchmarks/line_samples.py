"""How far the sampled costs of lines are from their timed ones, on a busy machine.

`python -m benchmarks.line_samples [--profiles 4] [--load 4]`: profiles a script that times its own
lines, beside so many processes that come and go. A line's sampled share of a step is compared with
its part of all timed lines; the samples of the one and the timed steps of the other are of the same
process, but not of the same steps.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import record
from benchmarks.honesty import background_load

SCRIPT = Path(__file__).parent / "scripts" / "timed_lines.py"


def once(load: int) -> dict[str, Any]:
    """One profile: the samples taken, and for each timed line (timed share, sampled share)."""
    with tempfile.TemporaryDirectory() as folder, background_load(load):
        timed = Path(folder) / "timed.json"
        words = ["profile", "--json", "--budget", "25s", "--writable", folder, sys.executable]
        done = subprocess.run(
            [sys.executable, "-m", "hotlap", *words, str(SCRIPT), str(timed)],
            stdout=subprocess.PIPE, check=True,
        )  # fmt: skip
        profile, seconds = json.loads(done.stdout), json.loads(timed.read_text())
    shares = {phase["name"]: phase["share"] for phase in profile["phases"]}
    sampled: dict[str, float] = {}
    samples = 0
    for phase, lines in profile["lines"].items():
        for line in lines:
            number = line["place"].rpartition(":")[2]
            sampled[number] = sampled.get(number, 0.0) + line["share"] * shares[phase]
            samples += line["samples"]
    whole = sum(seconds.values())
    lines = {at: (spent / whole, sampled.get(at, 0.0)) for at, spent in seconds.items()}
    return {"step": profile["step"], "samples": samples, "lines": lines}


def main(profiles: int, load: int) -> None:
    """Profile so many times, and write the record."""
    rows = [once(load) for _ in range(profiles)]
    apart = [abs(timed - seen) for row in rows for timed, seen in row["lines"].values()]
    summary = {
        "profiles": profiles,
        "samples": [row["samples"] for row in rows],
        "points apart, mean": round(100 * sum(apart) / len(apart), 1),
        "points apart, most": round(100 * max(apart), 1),
    }
    command = f"python -m benchmarks.line_samples --profiles {profiles} --load {load}"
    record.write(f"line-samples-load{load}", command, rows, summary)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--profiles", type=int, default=4)
    parser.add_argument("--load", type=int, default=4)
    given = parser.parse_args()
    main(given.profiles, given.load)
