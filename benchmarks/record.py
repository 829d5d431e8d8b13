"""Raw records: every benchmark writes what it measured, on what, with which versions."""

import datetime
import json
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from hotlap import __version__
from hotlap.core.machine import detect
from hotlap.core.recipe import torch_version

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"


def folder() -> Path:
    """Where today's records of this machine lie."""
    return RESULTS / f"{datetime.date.today().isoformat()}-{detect().fingerprint}"


def write(
    name: str, command: str, rows: Any, summary: dict[str, Any], *, quiet: bool = False
) -> Path:
    """Write `results/<date>-<machine>/<name>.json` and print the summary, unless `quiet`."""
    machine = detect()
    path = folder() / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {
        "command": command,
        "machine": machine.summary(),
        "python": platform.python_version(),
        "torch": torch_version(),
        "hotlap": __version__,
        "summary": summary,
        "rows": rows,
    }
    text = json.dumps(record, indent=1)
    path.write_text(text.replace(f"{ROOT}/", "").replace(sys.executable, "python"))
    if not quiet:
        print(json.dumps(summary, indent=1))
    return path


def spread(ratios: Sequence[float]) -> list[float]:
    """The smallest, the median and the largest of them."""
    return [min(ratios), median(ratios), max(ratios)]


def rows(name: str) -> list[Any]:
    """The rows of today's record of that name on this machine, to be added to; else none."""
    path = folder() / f"{name}.json"
    return list(json.loads(path.read_text())["rows"]) if path.exists() else []
