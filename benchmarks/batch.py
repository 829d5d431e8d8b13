"""Whether the batch size that `hotlap batch` answers is the fastest, and holds.

`python -m benchmarks.batch digits|gpt answer|sweep`. `answer`: `hotlap batch` under a limit on its
address space, and its answers alone for 200 steps under the same limit, without hotlap. `sweep`:
the recorded answer and all sizes of a sweep, alive at once and run in turns, so that each round
sees the same background load. The best of the sweep is chosen on every second round and compared
on the others: the best of many noisy figures looks better than it is. On a busy machine samples a
second of processor time say more, since these scripts run on one thread.
"""

import json
import math
import random
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import record
from hotlap.batch.baseline import observe_script
from hotlap.batch.contestant import Contestant, SizedCommand, TimedBlock
from hotlap.core.spec import Mode
from hotlap.trial.launch import Setting

HERE = Path(__file__).parent.parent
ROUNDS = 10
STEPS = 200
SWEEP = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
PROGRAM = "from hotlap.cli.batch import batch; batch(prog_name='hotlap batch')"


@dataclass(frozen=True)
class Task:
    """A script, how its batch size is set, the limit in bytes, and how it is told to make steps."""

    script: Path
    limit: int
    options: tuple[str, ...]
    argument: str = ""
    samples: int = 0

    def alone(self, size: int) -> list[str]:
        """The command for STEPS steps at a size."""
        words = [sys.executable, str(self.script), "--batch-size", str(size)]
        if not self.samples:
            return [*words, "--steps", str(STEPS)]
        return [*words, "--epochs", str(math.ceil(STEPS / math.ceil(self.samples / size)))]


TASKS = {
    "digits": Task(
        HERE / "examples" / "digits" / "train.py", 3 << 30,
        ("--max", "256", "--budget", "120s"), samples=1437,
    ),
    "gpt": Task(
        HERE / "tests" / "batch" / "gpt.py", 15 << 26,
        ("--max", "4096", "--budget", "200s", "--set", "--batch-size {batch}"),
        "--batch-size {batch}",
    ),
}  # fmt: skip


def _limited(words: list[str], limit: int, folder: str) -> subprocess.CompletedProcess[str]:
    def limit_space() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    return subprocess.run(
        words, cwd=folder, capture_output=True, text=True, check=False, preexec_fn=limit_space
    )


def answered(task: Task, folder: str) -> dict[str, Any]:
    """What `hotlap batch` says."""
    words = [sys.executable, "-c", PROGRAM, "--json", *task.options, sys.executable]
    done = _limited([*words, str(task.script)], task.limit, folder)
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def swept(task: Task, sizes: list[int], folder: str) -> dict[int, list[TimedBlock]]:
    """The timed blocks of every size, round by round."""
    setting = Setting(
        (sys.executable, str(task.script)), Mode.RACE, seed=0, scratch=Path(folder) / "scratch",
        output=Path(folder) / "log",
    )  # fmt: skip
    sized = SizedCommand(setting, argument=task.argument)
    if not task.argument:
        sized = SizedCommand(setting, observe_script(sized).loaders)
    contestants = [Contestant(sized, size) for size in sizes]
    blocks: dict[int, list[TimedBlock]] = {size: [] for size in sizes}
    try:
        for contestant in contestants:
            contestant.ready()
        for _ in range(ROUNDS):
            for contestant in random.sample(contestants, len(contestants)):
                blocks[contestant.size].append(contestant.timed())
    finally:
        for contestant in contestants:
            contestant.close()
    return blocks


def _samples(block: TimedBlock, size: int) -> float:
    """Samples of a block; by the option where no DataLoader counts them."""
    return block.samples or size * block.steps


def of_the_best(rates: dict[int, list[float]], choice: int) -> tuple[int, float]:
    """The fastest size by the even rounds, and the choice's speed as a share of its in the odd."""
    shares = {
        size: [a / b for a, b in zip(rates[choice], row, strict=True)]
        for size, row in rates.items()
    }
    best = min(shares, key=lambda size: median(shares[size][::2]))
    return best, median(shares[best][1::2])


def answer(name: str, task: Task) -> None:
    """Search, run the answers alone, and record both."""
    with tempfile.TemporaryDirectory() as folder:
        found = answered(task, folder)
        sizes = sorted({found["fastest"], found["largest"]})
        codes = {size: _limited(task.alone(size), task.limit, folder).returncode for size in sizes}
    summary = {
        "limit MiB": task.limit >> 20,
        **{key: found[key] for key in ("fastest", "largest", "bound")},
        "seconds of the search": round(found["seconds"]),
        f"exit codes of {STEPS} steps": codes,
    }
    record.write(f"batch-{name}", f"python -m benchmarks.batch {name} answer", found, summary)


def sweep(name: str, task: Task) -> None:
    """Race the recorded answer against the other sizes, up to where memory ends."""
    path = max(record.RESULTS.glob(f"*/batch-{name}.json"))
    found = json.loads(path.read_text())["rows"]
    fastest = found["fastest"]
    most = found["largest"] if found["bound"].startswith("memory") else max(SWEEP)
    sizes = sorted({*(size for size in SWEEP if size <= most), fastest})
    with tempfile.TemporaryDirectory() as folder:
        blocks = swept(task, sizes, folder)
    rates = {
        "second": {
            size: [_samples(block, size) / block.seconds for block in row]
            for size, row in blocks.items()
        },
        "CPU second": {
            size: [_samples(block, size) / block.cpu for block in row]
            for size, row in blocks.items()
        },
    }
    summary: dict[str, Any] = {"fastest": fastest}
    for what, rows in rates.items():
        best, share = of_the_best(rows, fastest)
        summary[f"samples a {what}"] = {
            "best of the sweep": best,
            "fastest, of the best's": round(share, 3),
            **{str(size): round(median(row)) for size, row in rows.items()},
        }
    record.write(f"batch-{name}-sweep", f"python -m benchmarks.batch {name} sweep", rates, summary)


def main(name: str, part: str) -> None:
    """Run one part of one task."""
    {"answer": answer, "sweep": sweep}[part](name, TASKS[name])


if __name__ == "__main__":
    main(*sys.argv[1:3])
