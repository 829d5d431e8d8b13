"""CPU time and wall time a sample: hotlap's profiles against usual ways and peers, by turns.

`python -m benchmarks.data.speed [jpeg|ordinary|raw] [IMAGES] [ROUNDS] [FOLDER [SIDES...]]`. Each
side runs in a process of its own, kept from round to round and idle between; the order of the sides
alternates. Peers that are not installed get a row that says so (see `peers` and `ordinary`). FOLDER
keeps what is written for the next call; SIDES are the first and those of the group to be measured,
if not all.
"""

import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import hotlap
from benchmarks import record
from benchmarks.data import prepare
from benchmarks.data.ordinary import interpreter
from benchmarks.data.peers import PEERS

Row = dict[str, float]
GROUPS = {
    "jpeg": [
        "tv",
        "tv, 2 workers",
        "jpeg",
        "jpeg, 1 process of 2 threads",
        "jpeg, 2 processes",
        "jpeg, Decoder('pil')",
        "jpeg256",
        "jpeg256, 2 processes",
        *(f"{name} jpeg, 2 workers" for name in PEERS),
    ],
    "ordinary": [
        "PIL",
        *(
            f"{name}, {workers}"
            for workers in ("1 worker", "2 workers")
            for name in ("PIL", "jpeg", "FFCV full size", "jpeg256", "FFCV max_resolution=341")
        ),
    ],
    "raw": [
        "tv",
        "raw",
        "npy",
        "npy, 2 workers",
        "npy, __getitems__",
        "npy, copied in order",
        *(f"{name} raw, {workers} workers" for workers in (0, 2) for name in PEERS),
    ],
}
ROWS_PER_IMAGE = 8


def _environment() -> dict[str, str]:
    """Another interpreter finds hotlap too."""
    paths = [str(Path(hotlap.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


class Child:
    """One side, waiting for its turn."""

    def __init__(self, name: str, folder: Path) -> None:
        command = [interpreter(name), "-m", "benchmarks.data.side", name, str(folder)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_environment()
        )
        self.absent = self._answer().get("absent", "")

    def once(self) -> Row:
        """Run an epoch."""
        assert self._process.stdin
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self._answer()

    def end(self) -> None:
        """Let it end; what its library leaves running is ended with it."""
        assert self._process.stdin
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _answer(self) -> Any:
        assert self._process.stdout
        line = self._process.stdout.readline()
        return json.loads(line) if line else {"absent": "it failed; see above"}


def measure(names: list[str], rounds: int, folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return each side's rows, and the sides that cannot run."""
    sides: dict[str, Child] = {}
    try:
        for name in names:
            sides[name] = Child(name, folder)
        absent = {name: side.absent for name, side in sides.items() if side.absent}
        able = [name for name in names if name not in absent]
        rows: dict[str, list[Row]] = {name: [] for name in able}
        for number in range(rounds):
            for name in able if number % 2 else reversed(able):
                rows[name].append(sides[name].once())
    finally:
        for side in sides.values():
            side.end()
    return rows, absent


def summary(rows: dict[str, list[Row]], own: tuple[str, ...]) -> dict[str, Any]:
    """Medians, and medians of the paired ratios: to the first side, and of hotlap's to each."""
    base = next(iter(rows))
    return {
        name: {f"{kind}_us": _median([row[kind] for row in found], 1) for kind in ("cpu", "wall")}
        | {f"{kind}_over_{base}": _ratio(rows[base], found, kind) for kind in ("cpu", "wall")}
        | {
            f"{kind}_{side}_over_this": _ratio(found, rows[side], kind)
            for side in own
            for kind in ("cpu", "wall")
        }
        for name, found in rows.items()
    }


def _ratio(slow: list[Row], fast: list[Row], kind: str) -> float:
    return _median([a[kind] / b[kind] for a, b in zip(slow, fast, strict=True)], 2)


def _median(values: list[float], digits: int) -> float:
    return round(statistics.median(values), digits)


def main(
    group: str = "jpeg", count: int = 512, rounds: int = 5, place: str = "", *sides: str
) -> None:
    """Measure one group, and write the record."""
    with tempfile.TemporaryDirectory() as passing:
        folder = Path(place or passing)
        prepare.everything(folder, group, count, count * ROWS_PER_IMAGE)
        before = os.getloadavg()
        rows, absent = measure(list(sides) or GROUPS[group], rounds, folder)
    own = tuple(name for name in rows if name.startswith((group, "jpeg")))
    record.write(
        f"data-{group}",
        shlex.join(["python", "-m", "benchmarks.data.speed", group, str(count), str(rounds)])
        + (f" FOLDER {shlex.join(sides)}" if sides else ""),
        rows | absent,
        summary(rows, own) | absent | {"load average": [before, os.getloadavg()]},
    )


if __name__ == "__main__":
    given = sys.argv[1:]
    main(*given[:1], *map(int, given[1:3]), *given[3:])
