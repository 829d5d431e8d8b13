"""Which rank a profile calls late, of equal ranks and of unequal ones, on a busy machine.

`python -m benchmarks.ranks [--profiles 9] [--load 4]`: profiles two ranks with equal shards and two
with shards sorted by length by turns, beside so many processes that come and go. A row has, as
parts of a step: by how much the last rank is later than the other one (`late`), and how long each
waits for a core.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import record
from benchmarks.honesty import background_load

SCRIPT = Path(__file__).parent / "scripts" / "shards.py"
TORCHRUN = ("-m", "torch.distributed.run", "--nproc-per-node", "2")


def once(kind: str, load: int) -> dict[str, Any]:
    """One profile of the two ranks."""
    with background_load(load):
        words = [sys.executable, "-m", "hotlap", "profile", "--json", sys.executable, *TORCHRUN]
        done = subprocess.run(
            [*words, str(SCRIPT), kind], stdout=subprocess.PIPE, check=True,
            env=os.environ | {"GLOO_SOCKET_IFNAME": "lo"},
        )  # fmt: skip
    found = json.loads(done.stdout)
    last, other = sorted(found["ranks"], key=lambda rank: float(rank["straggler"]))
    step = last["step"]
    ids = {remedy["id"] for one in found["findings"] for remedy in one["remedies"]}
    return {
        "kind": kind,
        "step": step,
        "late": other["straggler"] / step,
        "core": last["core"] / step,
        "core_of_other": other["core"] / step,
        "called": "straggler" in ids,
        "load_average": os.getloadavg()[0],
    }


def main(profiles: int, load: int) -> None:
    """Profile both kinds so many times, and write the record."""
    rows = [once(kind, load) for _ in range(profiles) for kind in ("equal", "sorted")]
    called = {
        kind: sum(row["called"] for row in rows if row["kind"] == kind)
        for kind in ("equal", "sorted")
    }
    command = f"python -m benchmarks.ranks --profiles {profiles} --load {load}"
    record.write(f"ranks-load{load}", command, rows, {"profiles": profiles, "called": called})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--profiles", type=int, default=9)
    parser.add_argument("--load", type=int, default=4)
    given = parser.parse_args()
    main(given.profiles, given.load)
