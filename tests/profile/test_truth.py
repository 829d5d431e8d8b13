"""Truth: on each workload with a planted bottleneck, the top finding names it, with its line."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from planted.manifest import PLANTED, Planted

pytestmark = pytest.mark.slow

HEADLINES = {
    "data": "waiting for data",
    "float64": "float64",
    "compute": "forward and backward",
    "overhead": "forward and backward",
    "evaluation": "evaluation",
}
REMEDIES = {
    "data": "loader_workers",
    "float64": "float64_copies",
    "compute": "fused_pointwise",
    "overhead": "fused_pointwise",
    "evaluation": "no_grad_eval",
}


def profile(script: Path, tmp_path: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "hotlap", "profile", "--json", "--seconds", "8"]
    done = subprocess.run(
        [*command, sys.executable, str(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    "planted", [p for p in PLANTED if p.cause], ids=lambda planted: planted.name
)
def test_the_top_finding_is_the_planted_one(planted: Planted, tmp_path: Path) -> None:
    found = profile(planted.path, tmp_path)["findings"]
    assert found, "nothing was found"
    top = found[0]
    assert planted.cause is not None
    assert HEADLINES[planted.cause] in top["what"], top
    assert REMEDIES[planted.cause] in {remedy["id"] for remedy in top["remedies"]}, top
    places = [top["place"], *top["also"]]
    assert f"{planted.path}:{planted.line}" in places, places


def test_a_clean_script_is_not_accused(tmp_path: Path) -> None:
    clean = next(p for p in PLANTED if p.cause is None)
    found = profile(clean.path, tmp_path)["findings"]
    named = {remedy["id"] for finding in found for remedy in finding["remedies"]}
    assert not named & {"loader_workers", "no_grad_eval", "float64_copies", "cached_dataset"}
