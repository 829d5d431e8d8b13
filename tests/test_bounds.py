"""No race in the records found more than the profile's bound allows."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from hotlap.profile.model import bound

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
        ({**tune("fused_optimizer", 1.2), "load": 0.1}, True),
    ],
)
def test_a_bound_that_a_race_refutes_is_found(
    bounds: Any, tmp_path: Path, document: Any, refuted: bool
) -> None:
    (tmp_path / "record.json").write_text(json.dumps({"rows": [{"tune": document}]}))
    assert [one.refuted for one in bounds.check(tmp_path)] == [refuted]


def test_where_other_programs_used_the_cores_no_bound_was_printed(
    bounds: Any, tmp_path: Path
) -> None:
    rows = [{**tune("fused_optimizer", 1.2), "load": load} for load in (0.4, 0.6)]
    document = {"machine": "AMD EPYC, 2 cores (2 physical)", "rows": rows}
    (tmp_path / "record.json").write_text(json.dumps(document))
    assert [one.refuted for one in bounds.check(tmp_path)] == [True]


def test_no_record_refutes_a_bound(bounds: Any) -> None:
    found = bounds.check()
    assert found
    assert not [one for one in found if one.refuted]


RECORDED = sorted((ROOT / "benchmarks" / "results").glob("*/cold_caches.json"))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.parent.name)
def test_what_work_costs_the_rest_of_a_step_through_the_caches_is_within_the_bound(
    path: Path,
) -> None:
    for row in json.loads(path.read_text())["rows"]:
        step = row["work"] + row["cold step"]
        found = step / row["warm step"]
        assert found <= 1.02 * bound(row["work"] / step, step), row  # medians repeat within 2 %
