"""What `hotlap run` and `hotlap profile` cost a step: paired blocks of one loop with and without.

`python -m benchmarks.lightness [PAIRS]`. The loop times itself, so that nothing of hotlap is needed
to time it; the two processes take turns.
"""

import math
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import record
from hotlap.trial.stats import PairedTest

STEPPER = Path(__file__).with_name("stepper.py")
SIZES = {"0.5 ms": ("64", "32"), "20 ms": ("1024", "256")}
BLOCK = 0.2
WARM = 60


class Loop:
    """One process of the loop, below `prefix`."""

    def __init__(self, prefix: list[str], size: tuple[str, str], folder: str) -> None:
        self.process = subprocess.Popen(
            [*prefix, sys.executable, str(STEPPER), *size],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def block(self, steps: int) -> float:
        """Seconds a step over so many steps."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline()) / steps

    def end(self) -> None:
        """End of input ends the loop."""
        self.process.communicate(timeout=120)


def cost(verb: list[str], size: tuple[str, str], pairs: int) -> dict[str, Any]:
    """Race the plain loop against the loop below a verb."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "hotlap.toml").write_text("")
        plain = Loop([], size, folder)
        under = Loop([sys.executable, "-m", "hotlap", *verb], size, folder)
        first = [loop.block(WARM) for loop in (plain, under)]
        steps = max(1, math.ceil(BLOCK / min(first)))
        test, rows = PairedTest(), []
        for index in range(pairs):
            order = (plain, under) if index % 2 else (under, plain)
            seconds = {id(loop): loop.block(steps) for loop in order}
            rows.append((seconds[id(plain)], seconds[id(under)]))
            test.add(*rows[-1])
        plain.end()
        under.end()
    e = test.estimate()
    interval = [round(1 / e.high, 4), round(1 / e.low, 4)]
    step = sorted(row[0] for row in rows)[len(rows) // 2]
    return {"cost": round(1 / e.ratio, 4), "interval": interval, "step": step, "rows": rows}


def main(pairs: int) -> None:
    """Measure both verbs at both sizes."""
    verbs = {"run": ["run", "-q"], "profile": ["profile", "--steps", "all"]}
    rows = {
        f"{name}, {size} step": cost(verb, SIZES[size], pairs)
        for name, verb in verbs.items()
        for size in SIZES
    }
    summary = {
        name: {key: row[key] for key in ("cost", "interval", "step")} for name, row in rows.items()
    }
    record.write("lightness", f"python -m benchmarks.lightness {pairs}", rows, summary)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
