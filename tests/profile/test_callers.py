"""The line whose call leads to most of a cost that is spread over several lines."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hotlap.profile.callers import from_one_call
from hotlap.profile.model import Finding, Remedy

SPREAD = "spread over several lines, of which none stands out"


def found(phases: tuple[str, ...] = ("data",), spread: str = SPREAD) -> Finding:
    remedy = Remedy("slow", "do less", phases, "train.py:5", 2.0, 0.3)
    what = f"waiting for data: 80% of a step, 8 ms; {spread} (at most 5x)"
    return Finding(what, "train.py:5", "text", 0.8, 5.0, (remedy,), spread=spread)


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        ({1: {"data": 1.0}, 3: {"data": 0.7}, 4: {"data": 0.3}, 5: {"data": 0.35}}, 3),
        ({1: {"data": 1.0}, 2: {"data": 0.9}, 3: {"data": 0.6}, 5: {"data": 0.3}}, 3),
        ({1: {"data": 1.0}, 3: {"data": 0.4}, 5: {"data": 0.4}}, 0),
        ({1: {"data": 1.0}, 2: {"data": 0.96}}, 0),
        ({1: {"data": 1.0}, 3: {"forward": 0.7}}, 0),
        ({}, 0),
    ],
)
def test_the_innermost_line_that_leads_to_most_is_named(
    tmp_path: Path, lines: dict[int, dict[str, float]], line: int
) -> None:
    script = tmp_path / "train.py"
    script.write_text("".join(f"line_{number}()\n" for number in range(1, 9)))
    touched = SimpleNamespace(
        lines={n: {phase: (s, 30, ()) for phase, s in of.items()} for n, of in lines.items()}
    )
    profile: Any = SimpleNamespace(files={str(script): touched})
    one = from_one_call(found(), profile, tmp_path)
    if not line:
        assert one == found()
        return
    assert (one.place, one.text) == (f"train.py:{line}", f"line_{line}()")
    share = lines[line]["data"]
    said = f"waiting for data: 80% of a step, 8 ms; {share:.0%} of it in this line and what it "
    assert one.what == f"{said}calls (at most 5x)"
    assert from_one_call(found(spread=""), profile, tmp_path) == found(spread="")
