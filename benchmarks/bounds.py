"""Whether a printed bound was ever below what a race then found: over all records that hold tunes.

`python -m benchmarks.bounds [FOLDER]`. A profile bounds what a technique can give by the share of
its phases in a step (`bound` in hotlap.profile.model). A race whose whole interval lies above that
bound refutes it. Races of the script with something kept are left out: its phases have other shares
by then. So are tunes beside other programs that use many of the cores: no bound is printed there.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hotlap.core.registry import techniques
from hotlap.profile.model import DATA, bound
from hotlap.trial.load import shared

RESULTS = Path(__file__).parent / "results"
NO_PHASES = {"faults"}
"""What is no phase of a step, so that its share bounds nothing."""


@dataclass(frozen=True)
class Raced:
    """A technique that was raced against the plain script: its bound, and the race's interval."""

    record: str
    technique: str
    bound: float
    ratio: float
    low: float

    @property
    def refuted(self) -> bool:
        """Whether the race found more than the bound allows."""
        return self.low > self.bound


def tunes(value: Any) -> Iterator[Mapping[str, Any]]:
    """Every tune within a document: what has outcomes, and phases in seconds a step."""
    if isinstance(value, dict):
        if value.get("phases") and value.get("outcomes"):
            yield value
        else:
            value = list(value.values())
    if isinstance(value, list):
        for entry in value:
            yield from tunes(entry)


def raced(name: str, tune: Mapping[str, Any]) -> Iterator[Raced]:
    """The races of a tune that were run against the plain script."""
    known, phases = techniques(), dict(tune["phases"])
    whole = sum(phases.values())
    phases["data"] = sum(phases.pop(part, 0.0) for part in DATA)
    for row in tune["outcomes"]:
        record = known.get(row["technique"])
        mine = set(record.symptom.phases) if record and record.symptom else set()
        if row["race"] and whole and mine and not mine & NO_PHASES:
            found = row["race"]["fresh"] or row["race"]["estimate"]
            share = sum(phases.get(phase, 0.0) for phase in mine) / whole
            yield Raced(name, row["technique"], bound(share, whole), found["ratio"], found["low"])
        if row["status"] == "kept":
            return


def check(folder: Path = RESULTS) -> list[Raced]:
    """Every race in the records below a folder that has a bound to be compared with."""
    found: list[Raced] = []
    for path in sorted(folder.rglob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        for tune in tunes(document):
            if not shared(tune.get("load") or 0.0, cores(document)):
                found += raced(str(path.relative_to(folder)), tune)
    return found


def cores(document: Any) -> int:
    """The cores of the machine that a record is of."""
    machine = str(document.get("machine", "")) if isinstance(document, dict) else ""
    found = re.search(r"(\d+) cores", machine)
    return int(found[1]) if found else 1


def main() -> None:
    """Print each race with its bound; fail if one of them refutes it."""
    found = check(Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS)
    for one in found:
        verdict = "REFUTED" if one.refuted else "holds"
        print(f"{one.record} {one.technique}: at most {one.bound:.2f}x, "
              f"raced {one.ratio:.2f}x (from {one.low:.2f}x): {verdict}")  # fmt: skip
    refuted = sum(one.refuted for one in found)
    print(f"{refuted} of {len(found)} bounds refuted")
    sys.exit(bool(refuted))


if __name__ == "__main__":
    main()
