"""Whether the ratio of `hotlap tune torchrun ...` holds when the script is simply run.

The script is tuned; then it is run plain and with the recipe, by turns, and times its own steps.
`python -m benchmarks.parallel.tune_ddp [PAIRS] [BUDGET]`
"""

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from benchmarks.lightness import estimate
from benchmarks.record import write

HERE = Path(__file__).parent
STEPS = "600"
ONLY = "fused_optimizer,ddp_unused_search"
TORCHRUN = (
    *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
    *("--local-addr", "127.0.0.1", "--nproc-per-node", "2"),
)
HOTLAP = (sys.executable, "-m", "hotlap")
NAME = "parallel-tune-ddp"


def main(pairs: int, budget: str) -> None:
    """Tune, then run the pairs; write the record."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(HERE / "train_ddp.py", folder)
        tune = [*HOTLAP, "tune", "--budget", budget, "--only", ONLY, *TORCHRUN, "train_ddp.py"]
        text = _output(tune, folder)
        print(text)
        if not (folder / "hotlap.toml").exists():
            raise SystemExit("the tune kept nothing: there is no ratio to confirm")
        recipe = tomllib.loads((folder / "hotlap.toml").read_text())
        rows = [_pair(folder, turn) for turn in range(pairs)]
    found = estimate([[(row["tuned"], row["plain"])] for row in rows])
    summary = {
        "tuned_ratio": recipe["measured"]["ratio"],
        "tuned_interval": recipe["measured"]["interval"],
        "kept": sorted(recipe["techniques"]),
        "plain_pairs": pairs,
        "plain_ratio": found["cost"],
        "plain_interval": found["interval"],
        "plain_ratios": found["processes"],
    }
    command = f"python -m benchmarks.parallel.tune_ddp {pairs} {budget}"
    write(NAME, command, {"pairs": rows, "tune": text.splitlines()}, summary)


def _pair(folder: Path, turn: int) -> dict[str, float]:
    """Seconds of a step without and with the recipe; who goes first turns."""
    train = [*TORCHRUN, "train_ddp.py", "--steps", STEPS]
    commands = {"plain": train, "tuned": [*HOTLAP, "run", "-q", *train]}
    order = list(commands) if turn % 2 else list(reversed(commands))
    return {name: _step(_output(commands[name], folder)) for name in order}


def _step(text: str) -> float:
    found = re.search(r"^step ([\d.]+)", text, re.MULTILINE)
    if found is None:
        raise SystemExit(f"no time in the script's output:\n{text}")
    return float(found[1])


def _output(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{command} failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 6, *(sys.argv[2:3] or ["270s"]))
