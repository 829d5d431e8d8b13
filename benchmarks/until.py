"""Races to a target: how often they are wrong, and what schedules and larger batches give.

`python -m benchmarks.until aa [RACES]`: a command against itself, 3 seeds; at most 1 in 20 may be
called. `planted [RACES]`: linear regression against itself at twice the rate, which takes half the
steps; 9 in 10 must be found. `claims [NAME]`: one-cycle against a constant rate, and batch 64
against 512 with the scaled rate, on digits and on text, 5 seeds. Races are added to today's record.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import record

SCRIPT = Path(__file__).parent / "scripts" / "schedules.py"
LINE = "line --optimizer SGD --batch 512 --rate"  # steps long enough to outweigh the start-up
CALLED = {"faster", "slower"}
DIGITS = Path(__file__).parent.parent / "examples" / "digits"
DEMO = ["tune", "--allow", "training", "--until", "loss<1.2", "--seeds", "3", "--budget", "5m"]
CLAIMS = {
    "one-cycle, digits": (
        "val<=0.03", "digits --rate 1e-3", "digits --schedule one_cycle --rate 3e-3 --steps 400",
    ),
    "one-cycle against its peak as a constant, digits": (
        "val<=0.03", "digits --rate 3e-3", "digits --schedule one_cycle --rate 3e-3 --steps 400",
    ),
    "one-cycle, text": (
        "val<=2.1", "text --rate 1e-3", "text --schedule one_cycle --rate 1e-2 --steps 400",
    ),
    "one-cycle against its peak as a constant, text": (
        "val<=2.1", "text --rate 1e-2", "text --schedule one_cycle --rate 1e-2 --steps 400",
    ),
    "batch 64 to 512 with 8 times the rate, digits": (
        "val<=0.03", "digits --optimizer SGD --rate 0.02",
        "digits --optimizer SGD --rate 0.16 --batch 512 --every 5",
    ),
    "batch 64 to 512 with 8 times the rate, text": (
        "val<=2.1", "text --optimizer SGD --rate 0.1",
        "text --optimizer SGD --rate 0.8 --batch 512 --every 5",
    ),
}  # fmt: skip


def race(target: str, a: str, b: str, seeds: int, budget: str) -> dict[str, Any]:
    """One race to a target, without its curves."""
    sides = [[sys.executable, str(SCRIPT), *words.split()] for words in (a, b)]
    command = [sys.executable, "-m", "hotlap", "race", "--until", target, "--seeds", str(seeds)]
    done = subprocess.run(
        [*command, "--budget", budget, "--json", *sides[0], "--", *sides[1]],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(done.stderr)
    found = json.loads(done.stdout)
    pairs = [[{**run["time"], "best": run["best"], "steps": run["steps"]} for run in pair]
             for pair in found["pairs"]]  # fmt: skip
    return {"target": target, "a": a, "b": b, "verdict": found["verdict"],
            "ratio": [found["ratio"][key] for key in ("ratio", "low", "high")],
            "pairs": pairs}  # fmt: skip


def demo() -> None:
    """The tune of the digits example: what was raced, kept and refused, and the report as text."""
    words = [*DEMO, "python", "train.py"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "digits"
        shutil.copytree(DIGITS, folder, ignore=shutil.ignore_patterns(".hotlap", "hotlap*.toml"))
        env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        done = subprocess.run([sys.executable, "-m", "hotlap", *words], cwd=folder, env=env,
                              capture_output=True, text=True, check=False)  # fmt: skip
        if done.returncode:
            raise SystemExit(done.stderr)
        report = next(folder.glob(".hotlap/reports/*-tune.json"))
        found = json.loads(report.read_text())
    for row in found["rows"]:
        for pair in (row["race"] or {}).get("pairs", ()):
            for run in pair:
                del run["curve"]
    summary = {"plain seconds": found["plain"]["time"]["seconds"], "text": done.stdout.splitlines()}
    record.write("until-demo", " ".join(["hotlap", *words]), found["rows"], summary)


def main(kind: str, *words: str) -> None:
    """Run the races of one kind; the record is written after each."""
    name = f"until-{kind}"
    command = " ".join(["python -m benchmarks.until", kind, *words])
    rows = record.rows(name)
    if kind == "demo":
        demo()
        return
    if kind == "claims":
        for claim in words or CLAIMS:
            target, a, b = CLAIMS[claim]
            rows.append({"claim": claim, **race(target, a, b, 5, "15m")})
            summary = {row["claim"]: [row["verdict"], *row["ratio"]] for row in rows}
            record.write(name, command, rows, summary)
        return
    rates = ("0.004", "0.004") if kind == "aa" else ("0.002", "0.004")
    for _ in range(int(words[0]) if words else 20):
        rows.append(race("val<0.005", *(f"{LINE} {rate}" for rate in rates), 3, "5m"))
        called = [row["verdict"] for row in rows]
        summary = {"races": len(rows), "called": sum(v in CALLED for v in called),
                   "sooner": called.count("faster")}  # fmt: skip
        record.write(name, command, rows, summary, quiet=True)
    print(json.dumps(summary))


if __name__ == "__main__":
    main(*sys.argv[1:])
