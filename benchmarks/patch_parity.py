"""Whether a patched script is as fast as `hotlap run` was, with the same losses.

`python -m benchmarks.patch_parity [SECONDS [NAME...]]`: for the demo and the scripts under
`tests/patchable`, the recipe is written into a copy; then the original with its recipe on (A) is
raced against the patched copy (B), SECONDS each. The ratio should lie within 3 % of 1.
"""

import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from benchmarks import record
from hotlap.trial.race import Rules

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from patchable.racing import SCRIPTS, recipe_of, run_against_patched


def main(seconds: float, names: list[str]) -> None:
    """Race them all and write the record."""
    rows = []
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            rules = Rules(seconds=seconds, precision=0.01)
            found = run_against_patched(name, Path(folder), rules)
        e = found.race.estimate
        shown = f"{e.ratio:.3f} [{e.low:.3f}, {e.high:.3f}] {e.pairs} pairs"
        print(name, shown, found.parity.reason, flush=True)
        rows.append({"script": name, "recipe": recipe_of(name).values, **asdict(found)})
    summary = {
        "scripts": len(rows),
        "within 3 %": sum(0.97 <= row["race"]["estimate"]["ratio"] <= 1.03 for row in rows),
        "losses agree": sum(row["parity"]["kept"] for row in rows),
        "ratios, run over patched": {
            row["script"]: round(row["race"]["estimate"]["ratio"], 3) for row in rows
        },
    }
    command = f"python -m benchmarks.patch_parity {seconds:.0f} {' '.join(names)}"
    record.write("-".join(["patch-parity", *names]), command, rows, summary)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 40.0, sys.argv[2:] or list(SCRIPTS))
