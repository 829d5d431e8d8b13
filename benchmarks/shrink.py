"""What `hotlap shrink` makes of the two examples, against its targets.

`python -m benchmarks.shrink [digits] [gpt]`: trains the example, shrinks it, and writes the verb's
own document as the record. `digits` (a CNN): at least 2x fewer parameters and 1.5x lower latency at
the same batch, accuracy within 0.5 points, 5 seeds. `gpt` (characters): at least 2x smaller file,
perplexity within 2 %, without fine-tuning, so that it has no seeds. Quality is that of data that
neither trained nor chose anything.
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

EXAMPLES = Path(__file__).parents[1] / "examples" / "shrink"
CASES = {
    "digits": (
        "digits_cnn",
        "--params 0.5x --latency 1.5x --max-drop 0.5pt --train digits_cnn:train --seeds 5",
    ),
    "gpt": ("char_gpt", "--size 2x --lower-is-better --max-drop 2%"),
}


def run(module: str, targets: str) -> tuple[str, dict[str, Any]]:
    """The command, and what it found out."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(EXAMPLES / f"{module}.py", folder)
        one = os.environ | {"OMP_NUM_THREADS": "1"}  # as the forward passes have it
        subprocess.run([sys.executable, f"{module}.py"], cwd=folder, check=True, env=one)
        words = [
            "shrink", f"{module}:build", "--checkpoint", f"{module}.pt",
            "--evaluate", f"{module}:evaluate", "--test", f"{module}:test", *targets.split(),
        ]  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", "hotlap", *words, "--json"],
            cwd=folder, stdout=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
        if done.returncode > 1:
            raise SystemExit(f"shrink ended with {done.returncode}")
        return " ".join(["hotlap", *words]), json.loads(done.stdout)


def summary(found: dict[str, Any]) -> dict[str, Any]:
    """The winner beside the original."""
    chosen = next((r for r in found["candidates"] if r["name"] == found["written"].get("name")), {})
    if not chosen:
        return {"written": None}
    first = found["original"]
    return {
        "written": chosen["name"],
        "parameters": round(chosen["parameters"] / first["parameters"], 3),
        "file": round(chosen["bytes"] / first["bytes"], 3),
        "latency gain": [round(value, 2) for value in chosen["latency"]],
        "quality on test data": found["tested"],
    }


def main(name: str) -> None:
    """Shrink one example, write the record."""
    command, found = run(*CASES[name])
    rows = [{**row, "original": found["original"]} for row in found["candidates"]]
    record.write(f"shrink-{name}", command, rows, summary(found))


if __name__ == "__main__":
    for case in sys.argv[1:] or CASES:
        main(case)
