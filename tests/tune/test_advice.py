"""A tune proposes a packed copy within what the race without data allows."""

import os
from dataclasses import replace
from typing import Any

import pytest

from hotlap.core.protocol import PhaseTimes, ProfilePayload
from hotlap.profile.model import Finding, Remedy
from hotlap.profile.packing import Proposal
from hotlap.reporting.findings_text import cost
from hotlap.trial.race import RaceResult
from hotlap.trial.stats import Estimate, Verdict
from hotlap.tune import result as module
from hotlap.tune.result import UNSEEN, Outcome, Status, TuneResult, UpperBound, advice

SEEN = ProfilePayload(PhaseTimes(0.1), {})


def estimate(ratio: float) -> Estimate:
    return Estimate(ratio, ratio * 0.9, ratio * 1.1, 9, 0.95)


def race(ratio: float) -> RaceResult:
    return RaceResult(
        estimate(ratio), Verdict.FASTER, "steps", True, 0.02, 0.02 / ratio, 1.0, 1.0, 0, 0, 9
    )


@pytest.fixture(autouse=True)
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    code = ("from hotlap.data import Loader", 'loader = Loader("packed")')
    made = Proposal(
        "train.py:9", estimate(9.0), 99, (0.004, 0.0005), 4.0, 3.5, 5.0, 10**9,
        "hotlap pack photos packed", code, ("mind this",),
    )  # fmt: skip
    monkeypatch.setattr(module, "proposal", lambda *_: made)


def told(result: TuneResult, tmp_path: Any) -> str:
    return "".join(one.says for one in advice((), SEEN, result, tmp_path))


def test_the_lines_to_type_come_with_it(tmp_path: Any) -> None:
    (found,) = advice((), SEEN, TuneResult(("x",)), tmp_path)
    assert found.technique == "packed_dataset"
    assert found.place == "train.py:9"
    assert found.lines[0] == "hotlap pack photos packed"
    assert found.notes == ("mind this",)
    assert "about 4.00x as fast (at least 3.50x)" in found.says
    assert found.most == 5.0


def test_where_other_programs_used_the_cores_no_share_bounds_a_gain(tmp_path: Any) -> None:
    (found,) = advice((), SEEN, TuneResult(("x",), load=float(os.cpu_count() or 1)), tmp_path)
    assert "at most" not in cost(found.share, found.most)


def test_it_promises_no_more_than_free_data_gave(tmp_path: Any) -> None:
    result = TuneResult(("x",))
    result.upper_bounds = [
        UpperBound("data_free", "", estimate(2.0)),
        UpperBound("copies_free", "", None),
    ]
    assert "about 2.20x as fast (at least 2.20x)" in told(result, tmp_path)


def test_a_copy_read_without_the_random_transforms_has_one_bound(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = replace(module.proposal(SEEN, tmp_path), simpler=True)
    monkeypatch.setattr(module, "proposal", lambda *_: made)
    (found,) = advice((), SEEN, TuneResult(("x",)), tmp_path)
    assert found.most == 4.0
    assert found.says.startswith("less what your own random transforms take")
    assert "at most" not in found.says


def test_the_cost_of_a_line_of_its_own_stands_for_that_of_the_phase(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "proposal", lambda *_: None)
    heavy = Remedy("python_transforms", "", ("data",), "t.py:1", 1.06, 0.06, share=0.06)
    (found,) = advice([waits(heavy)], SEEN, TuneResult(("x",)), tmp_path)
    assert (found.share, found.most) == (0.06, 1.06)
    (whole,) = advice([waits(replace(heavy, share=0.0))], SEEN, TuneResult(("x",)), tmp_path)
    assert (whole.share, whole.most) == (0.5, 2.0)


@pytest.mark.parametrize("ratio", [0.9, 0.98])
def test_where_free_data_gave_nothing_it_is_left_alone(tmp_path: Any, ratio: float) -> None:
    result = TuneResult(("x",))
    result.upper_bounds = [UpperBound("data_free", "", estimate(ratio))]
    assert told(result, tmp_path) == ""


def test_where_what_was_kept_gives_as_much_it_is_left_alone(tmp_path: Any) -> None:
    result = TuneResult(("x",), final=race(4.2))
    assert told(result, tmp_path) == ""
    result.final = None
    result.outcomes = [Outcome("cached_dataset", Status.KEPT, race=race(3.9))]
    assert told(result, tmp_path) == ""
    result.outcomes = [Outcome("fused_optimizer", Status.KEPT, race=race(1.1))]
    assert told(result, tmp_path)


def test_nothing_measured_nothing_proposed(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "proposal", lambda *_: None)
    assert advice((), SEEN, TuneResult(("x",)), tmp_path) == []


def waits(*remedies: Remedy) -> Finding:
    return Finding("waiting for data", "train.py:9", "", 0.5, 2.0, remedies)


def test_of_a_problem_the_best_remedy_that_no_race_judged_is_left(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {"loader_workers": 0.4, "python_transforms": 0.1, "worker_memory": 0.2}
    seen = waits(*(Remedy(name, "", ("data",), "t.py:1", 2.0, g) for name, g in names.items()))
    result = TuneResult(("x",), outcomes=[Outcome("loader_workers", Status.SAME, race=race(1.0))])
    packed = waits(*seen.remedies, Remedy("packed_dataset", "", ("data",), "", 2.0, 0.3))
    assert [one.technique for one in advice([packed], SEEN, result, tmp_path)] == ["packed_dataset"]
    monkeypatch.setattr(module, "proposal", lambda *_: None)
    for finding in (seen, packed):
        found = advice([finding], SEEN, result, tmp_path)
        assert [one.technique for one in found] == ["worker_memory"]


def test_further_causes_are_left_to_the_user_where_their_own_lines_were_measured(
    tmp_path: Any,
) -> None:
    names = {"heavy_getitem": 0.3, "index_lookup": 0.2, "no_copy_from_numpy": 0.02}
    seen = waits(*(Remedy(n, "", ("data",), "t.py:1", 2.0, g, share=g) for n, g in names.items()))
    found = advice([seen], None, TuneResult(("x",)), tmp_path)
    assert [(one.technique, one.share) for one in found] == [
        ("heavy_getitem", 0.3),
        ("index_lookup", 0.2),
    ]


def test_what_is_pointless_beside_what_was_kept_is_not_left_to_the_user(tmp_path: Any) -> None:
    seen = waits(Remedy("loader_workers", "", ("data",), "t.py:1", 2.0, 0.4))
    why = "data loading can give 1.01x at most"
    kept = Outcome("cached_dataset", Status.KEPT, race=race(5.0))
    result = TuneResult(("x",), outcomes=[kept, Outcome("loader_workers", Status.NOT_RACED, why)])
    assert advice([seen], None, result, tmp_path) == []
    result.outcomes[1] = replace(result.outcomes[1], reason=f"no evaluation ran {UNSEEN}")
    assert [one.technique for one in advice([seen], None, result, tmp_path)] == ["loader_workers"]


def test_what_crashed_in_its_race_is_not_left_to_the_user(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "proposal", lambda *_: None)
    seen = waits(Remedy("loader_workers", "", ("data",), "t.py:1", 2.0, 0.4))
    crashed = Outcome("loader_workers", Status.CRASHED, "EOFError in a worker")
    assert advice([seen], SEEN, TuneResult(("x",), outcomes=[crashed]), tmp_path) == []


def test_a_technique_that_is_pointless_for_its_phases_may_stand_for_a_line_of_others(
    tmp_path: Any,
) -> None:
    remedy = Remedy("async_checkpoint", "log less often", ("other",), "t.py:1", 4.0, 0.7, share=0.7)
    seen = Finding("each step writes a log", "t.py:1", "", 0.7, 4.0, (remedy,))
    why = "saving can give 1.00x at most"
    result = TuneResult(("x",), outcomes=[Outcome("async_checkpoint", Status.NOT_RACED, why)])
    assert [one.says for one in advice([seen], None, result, tmp_path)] == ["log less often"]
    saving = replace(seen, remedies=(replace(remedy, phases=("saving",)),))
    assert advice([saving], None, result, tmp_path) == []


@pytest.mark.parametrize(("ratio", "left"), [(1.3, True), (1.99, False)])
def test_the_line_of_a_wait_is_left_to_the_user_while_the_wait_lasts(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, ratio: float, left: bool
) -> None:
    monkeypatch.setattr(module, "proposal", lambda *_: None)
    names = {"loader_workers": 0.5, "slow_line": 0.25}
    seen = waits(*(Remedy(name, "", ("data",), "t.py:1", 2.0, g) for name, g in names.items()))
    kept = Outcome("loader_workers", Status.KEPT, race=race(ratio))
    found = advice([seen], SEEN, TuneResult(("x",), outcomes=[kept]), tmp_path)
    assert [one.technique for one in found] == ["slow_line"] * left
