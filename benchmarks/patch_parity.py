"""Whether a patched script is as fast as `hotlap run` was, with the same losses.

`python -m benchmarks.patch_parity [SECONDS [ROUNDS [NAME...]]]`: for the demo and the scripts under
`tests/patchable`, the recipe is written into a copy; then the original with its recipe on (A) is
raced against the patched copy (B), ROUNDS times SECONDS on fresh processes each time: two processes
of one script can differ by more than 3 % for as long as they live. The ratio of a script is the
geometric mean of its rounds.

glibc gives large blocks back to the kernel, or keeps them, by thresholds that it adapts to what a
process happened to free first: of the runs of one script some have thousands of page faults an
epoch and some none. Both sides therefore run with fixed thresholds (`HEAP`), on a heap that is
shaken at random (`benchmarks/shaken.py`). Both run on one core, since on a virtual machine one may
be twice as fast as the next.
"""

import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from statistics import geometric_mean

from benchmarks import record
from benchmarks.shaken import HEAP, SHAKEN
from hotlap.trial.race import Rules

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from patchable.racing import SCRIPTS, recipe_of, run_against_patched


def main(seconds: float, rounds: int, names: list[str]) -> None:
    """Race them all and write the record."""
    os.environ.update(HEAP)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    rows = []
    for name in names * rounds:
        with tempfile.TemporaryDirectory() as folder:
            rules = Rules(seconds=seconds, precision=0.01)
            found = run_against_patched(name, Path(folder), rules, (SHAKEN,))
        e = found.race.estimate
        shown = f"{e.ratio:.3f} [{e.low:.3f}, {e.high:.3f}] {e.pairs} pairs"
        print(name, shown, found.parity.reason, flush=True)
        rows.append({"script": name, "recipe": recipe_of(name).values, **asdict(found)})
    ratios = {
        name: geometric_mean(
            row["race"]["estimate"]["ratio"] for row in rows if row["script"] == name
        )
        for name in names
    }
    summary = {
        "scripts": len(names),
        "rounds": rounds,
        "within 3 %": sum(0.97 <= ratio <= 1.03 for ratio in ratios.values()),
        "more than 3 % slower than run": sum(ratio < 0.97 for ratio in ratios.values()),
        "races in which losses agree": sum(row["parity"]["kept"] for row in rows),
        "time of run over time of patched": {n: round(ratio, 3) for n, ratio in ratios.items()},
    }
    command = f"python -m benchmarks.patch_parity {seconds:.0f} {rounds} {' '.join(names)}"
    name = "-".join(["patch-parity", str(rounds), *(names if names != list(SCRIPTS) else ())])
    record.write(name, command, rows, summary)


if __name__ == "__main__":
    given = [float(word) for word in sys.argv[1:3]]
    seconds, rounds = (*given, *(20.0, 3.0)[len(given) :])
    main(seconds, int(rounds), sys.argv[3:] or list(SCRIPTS))
