"""What each technique gives on small workloads: `hotlap tune`, its rows kept as a record.

`python -m benchmarks.techniques [BUDGET [NAME...]]`: so many seconds for each
workload, or for those named.

Every row is a race of the script with the techniques kept so far plus this one against the script
with those kept so far.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.record import write

ROOT = Path(__file__).parent.parent
UNDERSTOOD = (0, 1)
"""Exit codes of a tune that ran: with a confirmed recipe or none; with an unconfirmed one."""
INFERENCE = ("classify_images", "classify_text", "embed", "generate", "segment", "pipeline")
WORKLOADS = {
    "digits": ROOT / "examples" / "digits" / "train.py",
    "cnn": ROOT / "tests" / "planted" / "compute_cnn.py",
    "transformer": ROOT / "tests" / "planted" / "small_transformer.py",
    "evaluation": ROOT / "tests" / "planted" / "eval_with_grad.py",
    "clean": ROOT / "tests" / "planted" / "loop_clean.py",
} | {name: ROOT / "tests" / "scripts" / "inference" / f"{name}.py" for name in INFERENCE}
LONGER = {"classify_images": ["10000"], "embed": ["1000000"]}
"""Arguments of scripts that would else come to their end within the budget."""


def tune(command: Sequence[str], budget: int) -> dict[str, Any]:
    """One tune of a script with its arguments, as its JSON document."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "hotlap", "tune", "--json", "--budget", f"{budget}s",
             sys.executable, *command],
            cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode not in UNDERSTOOD:
        raise SystemExit(done.stderr or json.loads(done.stdout)["headline"])
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def rows(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The races of a tune."""
    found = []
    for outcome in document["outcomes"]:
        race = outcome["race"]
        if race is None:
            continue
        estimate = race["fresh"] or race["estimate"]
        names = ("ratio", "low", "high", "pairs")
        row = {"technique": outcome["technique"], "values": outcome["values"]}
        row |= {name: estimate[name] for name in names}
        row["outcome"] = f"{outcome['status']}: {outcome['reason']}".rstrip(": ")
        found.append(row)
    return found


def main(budget: int, names: list[str]) -> None:
    """Tune each workload."""
    for name in names:
        script = WORKLOADS[name]
        document = tune([str(script), *LONGER.get(name, [])], budget)
        final = document["final"]
        summary = {
            "workload": name,
            "script": str(script.relative_to(ROOT)),
            "recipe": final["estimate"] if final else None,
        }
        write(f"techniques-{name}", f"python -m benchmarks.techniques {budget} {name}",
              rows(document), summary)  # fmt: skip


if __name__ == "__main__":
    main(int((sys.argv[1:] or ["150"])[0]), sys.argv[2:] or list(WORKLOADS))
