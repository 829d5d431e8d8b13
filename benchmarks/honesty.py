"""How often a race errs, what it finds, and how far off its ratio is: A/A races and planted ones.

`python -m benchmarks.honesty [--races 10] [--seconds 30] [--planted 1.0] [--load 0] [--kinds ...]`:
races scripts of five kinds (see benchmarks/scripts/planted.py) against themselves, or against the
same script slowed down about `--planted` times by extra compute, half of the races with A as the
slower one. The true factor of a kind is measured in one process that trains with and without the
extra compute by turns: what a race says is compared with that. `--load N` keeps N processes beside
them that come and go. The races of a day are added to one record for each setting, so that they can
be run in portions.
"""

import argparse
import contextlib
import functools
import math
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks import record
from hotlap.core.spec import Mode
from hotlap.trial.launch import PASSIVE_WAIT, Setting
from hotlap.trial.race import race
from hotlap.trial.side import Side
from hotlap.trial.stats import Verdict
from hotlap.trial.stopping import StoppingRules

SCRIPT = Path(__file__).parent / "scripts" / "planted.py"
KINDS = ("mlp", "cnn", "gpt", "epochs", "variable")
CALIBRATION_SECONDS = {"mlp": 15.0, "cnn": 15.0, "gpt": 20.0, "variable": 20.0}
CALIBRATED_AS = {"epochs": "mlp"}  # the same work
CALLS = {Verdict.FASTER, Verdict.SLOWER}


def _burn(seed: int) -> None:
    """Keep a core busy for 0.2 to 3 s, rest up to half as long, and so on."""
    draw = random.Random(seed)
    while True:
        end = time.monotonic() + draw.uniform(0.2, 3.0)
        while time.monotonic() < end:
            sum(range(1000))
        time.sleep(draw.uniform(0.1, 1.5))


@contextlib.contextmanager
def background_load(processes: int) -> Iterator[None]:
    """So many other processes that come and go."""
    burners = [
        multiprocessing.Process(target=_burn, args=(seed,), daemon=True)
        for seed in range(processes)
    ]
    for burner in burners:
        burner.start()
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()


@contextlib.contextmanager
def sides(
    folder: Path, kind: str, factors: Sequence[float], *, passive: bool = False
) -> Iterator[tuple[Side, Side]]:
    """The script of a kind as both sides, each slowed down by its factor.

    With `passive` B's OpenMP threads sleep while they wait, and A's as the machine has it.
    """
    a, b = (
        Side(
            Setting(
                (sys.executable, str(SCRIPT), kind, "--slow-down", str(factor)), Mode.RACE, seed=0,
                scratch=folder / "scratch", output=folder / "log", passive_wait=sleeps,
            )
        )
        for factor, sleeps in zip(factors, (False, passive), strict=True)
    )  # fmt: skip
    try:
        yield a, b
    finally:
        a.close()
        b.close()


@functools.cache
def true_factor(kind: str, planted: float, load: int) -> float:
    """What the planted slow-down comes to, by CPU time.

    Under load a race lets both sides' threads sleep while they wait; then it is measured like that.

    Raises:
        RuntimeError: the slowed script was the faster one, so that something disturbed it.
    """
    if planted == 1.0:
        return 1.0
    kind = CALIBRATED_AS.get(kind, kind)
    words = [kind, "--slow-down", str(planted), "--calibrate", str(CALIBRATION_SECONDS[kind])]
    environment = {**os.environ, **PASSIVE_WAIT} if load else None
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *words], stdout=subprocess.PIPE, text=True, check=True,
        env=environment,
    )  # fmt: skip
    if (factor := float(done.stdout)) < 1:
        raise RuntimeError(f"{kind}: {planted}x was measured as {factor:.2f}x; is something busy?")
    return factor


def once(kind: str, factors: Sequence[float], rules: StoppingRules, load: int) -> dict[str, Any]:
    """One race beside so many other processes."""
    a_factor, b_factor = (true_factor(kind, factor, load) for factor in factors)
    with (
        background_load(load),
        tempfile.TemporaryDirectory() as folder,
        sides(Path(folder), kind, factors) as (a, b),
    ):
        found = race(a, b, rules)
    return {"kind": kind, "true": a_factor / b_factor, **asdict(found)}


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the races said, and how well."""
    called = [row for row in rows if row["verdict"] in CALLS]
    right = [r for r in called if (r["true"] > 1) == (r["verdict"] == "faster") and r["true"] != 1]
    halves = sorted(
        math.log(r["estimate"]["high"] / max(r["estimate"]["low"], 1e-9)) / 2 for r in rows
    )
    # By how much the called ratio overstates the difference, as a log.
    over = [
        math.copysign(1, math.log(row["true"])) * math.log(row["estimate"]["ratio"] / row["true"])
        for row in right
    ]
    loads = [row["load"]["load_average"] for row in rows]
    return {
        "races": len(rows),
        "called": len(called),
        "of them rightly": len(right),
        "same": sum(row["verdict"] == "same" for row in rows),
        "interval covers the truth": sum(
            r["estimate"]["low"] <= r["true"] <= r["estimate"]["high"] for r in rows
        ),
        "half-width of the interval (log), 9 of 10 below": round(halves[len(halves) * 9 // 10], 3),
        "called ratio overstates by (log), mean": round(fmean(over), 4) if over else None,
        "load average": [round(min(loads), 1), round(fmean(loads), 1), round(max(loads), 1)],
        "seconds a race": round(fmean(row["seconds"] for row in rows), 1),
    }


def main(races: int, seconds: float, planted: float, load: int, kinds: Sequence[str]) -> None:
    """Run so many races more, and write the record after each."""
    kind = "honesty" if planted == 1.0 else "honesty-calibrated"
    name = f"{kind}-{planted:g}x-load{load}-{seconds:.0f}s"
    command = f"python -m benchmarks.honesty --seconds {seconds:g} --planted {planted:g}"
    rows = record.rows(name)
    for index in range(len(rows), len(rows) + races):
        factors = (planted, 1.0) if index % 2 else (1.0, planted)
        rules = StoppingRules(seconds=seconds, unknown_change=True)
        row = once(kinds[index % len(kinds)], factors, rules, load)
        rows.append(row)
        record.write(name, f"{command} --load {load}", rows, summary(rows), quiet=True)
        e, at = row["estimate"], row["load"]["load_average"]
        print(
            f"{index} {row['kind']} {row['true']:.2f}: {row['verdict']} {e['ratio']:.3f} "
            f"[{e['low']:.3f}, {e['high']:.3f}] {e['pairs']} pairs, {row['launches']} launches, "
            f"{row['unit']}, load {at:.1f}, {row['seconds']:.0f} s", flush=True,
        )  # fmt: skip
    print(summary(rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--races", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--planted", type=float, default=1.0)
    parser.add_argument("--load", type=int, default=0)
    parser.add_argument("--kinds", default=",".join(KINDS))
    given = parser.parse_args()
    main(given.races, given.seconds, given.planted, given.load, given.kinds.split(","))
