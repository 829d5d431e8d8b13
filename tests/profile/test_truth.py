"""Truth: on each workload with a planted cause a finding names it, with its line.

The default suite runs a few of them; `make test-slow` runs all.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from planted.manifest import PLANTED, Planted

QUICK = {"slow_decode"}
PLANTS = [
    pytest.param(p, id=p.name, marks=() if p.name in QUICK else pytest.mark.slow)
    for p in PLANTED
    if p.cause
]


def profile(script: Path, tmp_path: Path, seconds: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "hotlap", "profile", "--json", "--budget", seconds]
    done = subprocess.run(
        [*command, sys.executable, str(script)],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},  # two threads stall where cores are shared
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found == json.loads((tmp_path / ".hotlap" / "profile.json").read_text())
    return found


def points(finding: dict[str, Any], ids: tuple[str, ...]) -> set[str]:
    """The places of a finding, if it names one of the techniques."""
    named = [remedy for remedy in finding["remedies"] if remedy["id"] in ids]
    if not named:
        return set()
    places = {place for remedy in named for place in (remedy["place"], *remedy["also"])}
    return {finding["place"], *finding["also"], *places}


@pytest.mark.parametrize("planted", PLANTS)
def test_the_planted_cause_comes_first_with_its_line_and_call(
    planted: Planted, tmp_path: Path
) -> None:
    """Of a fault: it is the first of the problems. Of an option: it is among the first of those."""
    found = profile(planted.path, tmp_path, "3" if planted.name in QUICK else "8")["findings"]
    told = [(f["problem"], f["what"], f["place"], [r["id"] for r in f["remedies"]]) for f in found]
    alike = [finding for finding in found if finding["problem"] is not bool(planted.option)]
    first = alike[: planted.option or 1]
    here = [f for f in first if f"{planted.path}:{planted.line}" in points(f, planted.ids)]
    assert here, told
    assert planted.call in here[0]["what"] + here[0]["text"], told


@pytest.mark.slow
@pytest.mark.parametrize("planted", [p for p in PLANTED if not p.cause], ids=lambda p: p.name)
def test_a_clean_script_has_no_problem(planted: Planted, tmp_path: Path) -> None:
    found = profile(planted.path, tmp_path, "8")["findings"]
    assert [finding for finding in found if finding["problem"]] == []


@pytest.mark.slow
def test_the_call_inside_the_line_is_named(tmp_path: Path) -> None:
    (planted,) = [p for p in PLANTED if p.name == "fsync_in_step"]
    found = profile(planted.path, tmp_path, "5")
    calls = [dict(line["calls"]) for line in found["lines"]["other"]]
    assert calls[0]["os.fsync(log.fileno())"] > 0.5
    named = {remedy["id"] for finding in found["findings"] for remedy in finding["remedies"]}
    assert "host_sync" not in named


@pytest.mark.slow
def test_the_cause_goes_with_the_fault(tmp_path: Path) -> None:
    for planted in PLANTED:
        if planted.twin is None or not planted.twin.startswith(planted.name):
            continue
        twin = planted.path.with_name(planted.twin)
        found = profile(twin, tmp_path, "5")["findings"]
        named = {remedy["id"] for finding in found for remedy in finding["remedies"]}
        assert not named & set(planted.ids), (twin, named)
