"""Whether a patched script is as fast as `hotlap run` was, with the same losses.

`python -m benchmarks.patch_parity [SECONDS [ROUNDS [NAME...]]]`: for the demo and the scripts under
`tests/patchable`, the recipe is written into a copy; then the original with its recipe on (A) is
raced against the patched copy (B), ROUNDS times SECONDS on fresh processes each time: two processes
of one script can differ by more than 3 % for as long as they live. In every other round the patched
copy is A, so that neither has what the first to start may have. The ratio of a script is the
geometric mean of its rounds.

glibc gives large blocks back to the kernel, or keeps them, by thresholds that it adapts to what a
process happened to free first: of the runs of one script some have thousands of page faults an
epoch and some none. Both sides therefore run with fixed thresholds (`HEAP`), on a heap that is
shaken at random (`benchmarks/shaken.py`), and on one core.
"""

import math
import os
import sys
import tempfile
from dataclasses import asdict
from itertools import product
from pathlib import Path
from statistics import geometric_mean, stdev

from benchmarks import record
from benchmarks.cores import one_core
from benchmarks.shaken import HEAP, SHAKEN
from hotlap.trial.stopping import StoppingRules

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from patchable.racing import SCRIPTS, recipe_of, run_against_patched


@one_core()
def main(seconds: float, rounds: int, names: list[str]) -> None:
    """Race them all and write the record."""
    os.environ.update(HEAP)
    rows = []
    for number, name in product(range(rounds), names):
        rules, turned = StoppingRules(seconds=seconds, precision=0.01, launches=1), bool(number % 2)
        with tempfile.TemporaryDirectory() as folder:
            found = run_against_patched(name, Path(folder), rules, (SHAKEN,), turned=turned)
        e = found.race.estimate
        shown = f"{found.ratio:.3f} from {e.ratio:.3f} [{e.low:.3f}, {e.high:.3f}] {e.pairs} pairs"
        print(name, shown, found.parity.reason, flush=True)
        row = {"script": name, "recipe": recipe_of(name).values, "ratio": found.ratio}
        rows.append({**row, **asdict(found)})
    each = {name: [row["ratio"] for row in rows if row["script"] == name] for name in names}
    ratios = {name: geometric_mean(found) for name, found in each.items()}
    summary = {
        "scripts": len(names),
        "rounds": rounds,
        "within 3 %": sum(0.97 <= ratio <= 1.03 for ratio in ratios.values()),
        "more than 3 % slower than run": sum(ratio < 0.97 for ratio in ratios.values()),
        "races in which losses agree": sum(row["parity"]["kept"] for row in rows),
        "time of run over time of patched": {n: round(ratio, 3) for n, ratio in ratios.items()},
        "standard errors": {
            n: round(stdev(map(math.log, found)) / math.sqrt(rounds), 4) if rounds > 1 else None
            for n, found in each.items()
        },
    }
    command = f"python -m benchmarks.patch_parity {seconds:.0f} {rounds} {' '.join(names)}"
    name = "-".join(["patch-parity", str(rounds), *(names if names != list(SCRIPTS) else ())])
    record.write(name, command, rows, summary)


if __name__ == "__main__":
    given = [float(word) for word in sys.argv[1:3]]
    seconds, rounds = (*given, *(20.0, 3.0)[len(given) :])
    main(seconds, int(rounds), sys.argv[3:] or list(SCRIPTS))
