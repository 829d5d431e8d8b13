"""No race in the records found more than the profile's bound allows."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def bounds(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.bounds")


def tune(name: str, low: float, *before: dict[str, Any]) -> dict[str, Any]:
    estimate = {"ratio": 1.1 * low, "low": low, "high": 1.2 * low}
    row = {
        "technique": name,
        "status": "inconclusive",
        "race": {"fresh": None, "estimate": estimate},
    }
    phases = {"data": 0.04, "loader": 0.01, "forward": 0.02, "backward": 0.02, "optimizer": 0.01}
    return {"phases": phases, "outcomes": [*before, row]}


KEPT = {**tune("mixed_precision", 1.2)["outcomes"][0], "status": "kept"}


@pytest.mark.parametrize(
    ("document", "refuted"),
    [
        (tune("fused_optimizer", 1.05), False),  # 10 % of a step: at most 1.11x
        (tune("fused_optimizer", 1.2), True),
        (tune("loader_workers", 1.9), False),  # half of a step, the loader's start included
        (tune("loader_workers", 2.1), True),
        (tune("cpu_threads", 8.0), False),
        (tune("fused_optimizer", 1.2, KEPT), False),  # raced with something kept
    ],
)
def test_a_bound_that_a_race_refutes_is_found(
    bounds: Any, tmp_path: Path, document: Any, refuted: bool
) -> None:
    (tmp_path / "record.json").write_text(json.dumps({"rows": [{"tune": document}]}))
    assert [one.refuted for one in bounds.check(tmp_path)] == [refuted]


OPEN = {("2026-11-23-62aa22d56e40/demo.json", "cached_dataset")}
"""Raced at 6.26x [5.50, 7.12] against a bound of 4.75x, which is of a profile that was taken while
the process to be raced started beside it. A fault that is not mended yet: nothing may join it."""


def test_no_record_refutes_a_bound(bounds: Any) -> None:
    found = bounds.check()
    assert found
    refuted = {(one.record, one.technique) for one in found if one.refuted}
    assert refuted <= OPEN
