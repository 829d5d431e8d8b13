"""What a trial's isolation costs at its start and at its end.

`python -m benchmarks.isolation [--launches 30]`: starts `date` as a trial, with the overlay and
without any isolation by turns. Start-up is the time until `date` reads the clock, the rest is the
time from then until the trial's folders are gone.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import record
from hotlap.core.spec import Mode, Tier
from hotlap.trial.foreground import run_foreground
from hotlap.trial.isolation.tiers import FORCED, isolation
from hotlap.trial.launch import Setting


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


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--launches", type=int, default=30)
    launches = parser.parse_args().launches
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


if __name__ == "__main__":
    main()
