"""What a trial's isolation costs: at its start, at its end, and in each step.

`python -m benchmarks.isolation [--launches 30]`: starts `date` as a trial, with the overlay and
without any isolation by turns. Start-up is the time until `date` reads the clock, the rest is the
time from then until the trial's folders are gone.

`python -m benchmarks.isolation --steps [--tier overlay|landlock] [--launches 6] [--pairs 100]`: a
lockstep race of one program with the tier against the same without isolation. `compute` only
computes; `files` also reads sixteen files of its folder in each step. Two processes of one program
differ for as long as they live: each launch gives one ratio, the median of its pairs of blocks, and
the launches make the interval (Student's t over the logarithms). All run on one core and on heaps
that were shaken at random, see `benchmarks/shaken.py`.
"""

import argparse
import math
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from scipy.stats import t

from benchmarks import record
from benchmarks.cores import one_core
from benchmarks.shaken import HEAP, SHAKEN
from hotlap.core.spec import Mode, Tier
from hotlap.isolation.tiers import FORCED, isolation
from hotlap.trial.foreground import run_foreground
from hotlap.trial.launch import Setting
from hotlap.trial.trial import Trial

BLOCK_SECONDS = 0.08
WARM_BLOCKS = 3
PROGRAM = """
import sys, torch
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)])
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
names = [f"data/{i}" for i in range(16)] if sys.argv[1] == "files" else []
x = torch.randn(64, 512)
while True:
    for name in names:
        with open(name, "rb") as file:
            file.read()
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
"""


def seconds(tier: Tier, scratch: Path) -> dict[str, float]:
    """One trial's start-up and what comes after the command began."""
    os.environ[FORCED] = tier
    isolation(scratch)  # chosen and tried once for a verb, not for each trial
    log = scratch.parent / "log"
    log.unlink(missing_ok=True)
    setting = Setting(("date", "+%s.%N"), Mode.PROFILE, scratch=scratch, output=log)
    begin = time.time()
    run_foreground(setting, lambda _: False)
    began = float(log.read_text())
    return {"start": began - begin, "rest": time.time() - began}


def start_up(launches: int) -> None:
    """Measure how long a trial takes to start and to end; print and record."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        scratch = Path(folder) / "scratch"
        os.environ[FORCED] = Tier.OVERLAY
        begin = time.perf_counter()
        isolation(scratch)
        tried = time.perf_counter() - begin
        rows.extend(
            {str(tier): seconds(tier, scratch) for tier in (Tier.OVERLAY, Tier.OFF)}
            for _ in range(launches)
        )
    summary = {"seconds to choose and try the tier, once for a verb": tried}
    for part in ("start", "rest"):
        added = median(row["overlay"][part] - row["off"][part] for row in rows)
        summary[f"median seconds that the overlay adds: {part}"] = added
    summary["load average"] = os.getloadavg()[0]
    record.write("isolation", f"benchmarks.isolation --launches {launches}", rows, summary)


def launched(tier: Tier, kind: str, folder: Path) -> Trial:
    """The program as a trial of this tier; it stands paused behind its warm-up."""
    os.environ[FORCED] = tier
    command = (sys.executable, SHAKEN, "train.py", kind)
    trial = Trial(
        Setting(command, Mode.RACE, scratch=folder / "scratch", output=folder / f"{tier}.log")
    )
    trial.first()
    for _ in range(WARM_BLOCKS):
        trial.run(20)
    trial.pause()
    return trial


def step_ratios(tier: Tier, kind: str, folder: Path, pairs: int) -> list[float]:
    """Seconds a step with the tier over those without isolation, for each pair of blocks."""
    with launched(tier, kind, folder) as isolated, launched(Tier.OFF, kind, folder) as plain:
        steps = max(1, round(BLOCK_SECONDS / plain.blocks[-1].step))
        ratios = []
        for pair in range(pairs):
            times = {}
            for trial in (isolated, plain) if pair % 2 else (plain, isolated):
                times[trial] = trial.run(steps).step
                trial.pause()
            ratios.append(times[isolated] / times[plain])
        return ratios


def step_time(tier: Tier, launches: int, pairs: int) -> None:
    """Race each kind of program; print and record."""
    home, rows, summary = Path.cwd(), [], {}
    for kind in ("compute", "files"):
        with tempfile.TemporaryDirectory(dir=home) as folder:
            os.chdir(folder)
            Path("train.py").write_text(PROGRAM)
            Path("data").mkdir()
            for number in range(16):
                Path("data", str(number)).write_bytes(os.urandom(16384))
            ratios = [step_ratios(tier, kind, Path(folder), pairs) for _ in range(launches)]
            os.chdir(home)
        rows.append({"kind": kind, "ratios": ratios})
        logs = [math.log(median(launch)) for launch in ratios]
        half = float(t.ppf(0.975, len(logs) - 1)) * stdev(logs) / math.sqrt(len(logs))
        middle = fmean(logs)
        summary[f"{kind}: step time, {tier} over no isolation, 95 % interval"] = [
            round(math.exp(value), 4) for value in (middle, middle - half, middle + half)
        ]
    command = f"benchmarks.isolation --steps --tier {tier} --launches {launches} --pairs {pairs}"
    record.write(f"isolation_steps_{tier}", command, rows, summary)


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--launches", type=int)
    parser.add_argument("--steps", action="store_true")
    parser.add_argument("--tier", type=Tier, default=Tier.OVERLAY)
    parser.add_argument("--pairs", type=int, default=100)
    given = parser.parse_args()
    if given.steps:
        os.environ.update(HEAP)
        with one_core():
            step_time(given.tier, given.launches or 6, given.pairs)
    else:
        start_up(given.launches or 30)


if __name__ == "__main__":
    main()
