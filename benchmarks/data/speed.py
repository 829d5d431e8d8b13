"""CPU time and wall time a sample: hotlap's profiles against usual ways and peers, by turns.

`python -m benchmarks.data.speed [jpeg|raw] [IMAGES] [ROUNDS] [FOLDER [SIDES...]]`. Each side runs
in a process of its own, kept from round to round and idle between; the order of the sides
alternates. Peers that are not installed get a row that says so (see `peers`). FOLDER keeps what is
written for the next call; SIDES are `tv` and those of the group to be measured, if not all.
"""

import json
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import record
from benchmarks.data import prepare
from benchmarks.data.peers import PEERS

Row = dict[str, float]
GROUPS = {
    "jpeg": [
        "tv",
        "tv, 2 workers",
        "jpeg",
        "jpeg, 1 process of 2 threads",
        "jpeg, 2 processes",
        "jpeg256",
        "jpeg256, 2 processes",
        *(f"{name} jpeg, 2 workers" for name in PEERS),
    ],
    "raw": [
        "tv",
        "raw",
        "npy",
        "npy, 2 workers",
        "npy, __getitems__",
        *(f"{name} raw, {workers} workers" for workers in (0, 2) for name in PEERS),
    ],
}
ROWS_PER_IMAGE = 8


class Child:
    """One side, waiting for its turn."""

    def __init__(self, name: str, folder: Path) -> None:
        command = [sys.executable, "-m", "benchmarks.data.side", name, str(folder)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
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
    """Medians, and medians of the paired ratios: to `tv`, and of hotlap's sides to each."""
    return {
        name: {f"{kind}_us": _median([row[kind] for row in found], 1) for kind in ("cpu", "wall")}
        | {f"{kind}_over_tv": _ratio(rows["tv"], found, kind) for kind in ("cpu", "wall")}
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
        prepare.everything(folder, count, count * ROWS_PER_IMAGE)
        rows, absent = measure(list(sides) or GROUPS[group], rounds, folder)
    own = tuple(name for name in (group, "jpeg256") if name in rows)
    record.write(
        f"data-{group}",
        shlex.join(["python", "-m", "benchmarks.data.speed", group, str(count), str(rounds)])
        + (f" FOLDER {shlex.join(sides)}" if sides else ""),
        rows | absent,
        summary(rows, own) | absent,
    )


if __name__ == "__main__":
    given = sys.argv[1:]
    main(*given[:1], *map(int, given[1:3]), *given[3:])
