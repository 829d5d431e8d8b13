"""Which techniques are raced, in which order, with which values."""

from dataclasses import replace

import pytest

from hotlap.core.errors import UsageError
from hotlap.core.machine import detect
from hotlap.core.protocol import PhaseTimes, ProfilePayload, SampledLine
from hotlap.core.registry import technique, techniques
from hotlap.core.technique import UNASKED, How, Numerics
from hotlap.tune.candidates import (
    Candidate,
    ScriptProfile,
    Wanted,
    candidates_for,
    known,
    pointless,
    values_of,
)
from hotlap.tune.result import Status

FACTS: dict[str, object] = {
    "loaders": True, "loader_serial": True, "map_style": True, "model": True, "conv4d": True,
    "float32_model": True, "compiler": True, "optimizer_unfused": True, "eval_with_grad": True,
    "loader_not_persistent": True,
}  # fmt: skip
SHARES = {"data": 0.7, "forward": 0.1, "backward": 0.1, "optimizer": 0.02, "evaluation": 0.08}


def script() -> ScriptProfile:
    return ScriptProfile(dict(FACTS), dict(SHARES))


@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.parametrize("facts", [{}, {"threads": 1}, {"threads": 2, "workers": 2}], ids=str)
def test_every_movable_technique_gets_a_row_or_a_race(facts: dict[str, object], world: int) -> None:
    """Also one whose values are all set already, or are too many threads for the ranks."""
    seen = ScriptProfile(FACTS | facts, dict(SHARES), world=world)
    machine = replace(detect(), logical_cores=2, physical_cores=2)
    todo, rows = candidates_for(seen, Wanted(UNASKED), machine)
    movable = {t.id for t in techniques().values() if How.MOVE in t.how}
    assert {c.name for c in todo} | {row.technique for row in rows} == movable
    assert all(row.reason for row in rows)


def test_cuda_techniques_do_not_apply_without_cuda() -> None:
    _, rows = candidates_for(script(), Wanted(UNASKED), detect())
    refused = {row.technique: row for row in rows}
    assert refused["pinned_memory"].status is Status.NOT_APPLICABLE
    assert refused["tf32"].status is Status.NOT_APPLICABLE


def test_what_would_change_nothing_is_no_candidate_and_what_may_is_one() -> None:
    seen = script()
    seen.facts |= {"calls_gelu": True, "calls_norm": True, "unchanged": {"fused_gelu": "why"}}
    todo, rows = candidates_for(seen, Wanted(UNASKED), detect())
    row = next(row for row in rows if row.technique == "fused_gelu")
    assert (row.status, row.reason) == (Status.NOT_APPLICABLE, "why")
    assert "fused_norm" in {c.name for c in todo}


def test_nothing_is_said_of_training_where_nothing_trains() -> None:
    facts = {"inference": True, "model": True, "float32_model": True, "compiler": True}
    found = ScriptProfile({**facts}, {"forward": 0.99, "other": 0.01})
    todo, rows = candidates_for(found, Wanted(UNASKED), detect())
    allowed = candidates_for(found, Wanted({*UNASKED, Numerics.TRAINING}), detect())
    assert {c.name for c in allowed[0]} == {c.name for c in todo}
    reasons = {row.technique: row.reason for row in rows}
    assert {reasons[name] for name in ("adamw", "lr_schedule", "fused_optimizer")} == {
        "it only concerns training"
    }
    assert reasons["cached_dataset"] == "it only concerns training"  # samples are read once
    others = [reason for reason in reasons.values() if reason != "it only concerns training"]
    assert not [reason for reason in others if "train" in reason]
    compiled = next(c for c in todo if c.name == "fused_pointwise")
    small = ScriptProfile({**facts}, {"forward": 0.01, "data": 0.99})
    words = pointless(compiled, {}, small, Wanted(UNASKED), 0.02)
    assert words.startswith("forward can give 1.0")


def test_numerics_only_skip_and_request_are_obeyed() -> None:
    todo, rows = candidates_for(script(), Wanted({Numerics.EXACT}), detect())
    assert all(c.record.numerics is Numerics.EXACT for c in todo)
    assert "--allow" in next(r.reason for r in rows if r.status is Status.NOT_ALLOWED)

    todo, _ = candidates_for(script(), Wanted(UNASKED, only=("no_grad_eval",)), detect())
    assert [c.name for c in todo] == ["no_grad_eval"]

    todo, _ = candidates_for(script(), Wanted(UNASKED, skip=("no_grad_eval",)), detect())
    assert "no_grad_eval" not in {c.name for c in todo}

    todo, _ = candidates_for(script(), Wanted(UNASKED), detect())
    assert "activation_checkpoint" not in {c.name for c in todo}
    todo, _ = candidates_for(
        script(), Wanted(UNASKED, requested=("activation_checkpoint",)), detect()
    )
    assert "activation_checkpoint" in {c.name for c in todo}


def test_persistent_workers_may_be_raced_together_with_workers() -> None:
    todo, _ = candidates_for(script(), Wanted(UNASKED), detect())
    assert "persistent_workers" in {c.name for c in todo}
    assert "loader_reuse" not in {c.name for c in todo}, "no loader was made anew"


def test_workers_of_a_loader_that_is_made_anew_are_handed_over() -> None:
    seen = script()
    seen.facts["loader_rebuilt"] = True
    todo, _ = candidates_for(seen, Wanted(UNASKED), detect())
    assert "persistent_workers" not in {c.name for c in todo}
    reuse = next(c for c in todo if c.name == "loader_reuse")
    seen.facts["workers_restarted"] = True
    assert seen.expected(reuse) == pytest.approx(0.5 * SHARES["data"])


def test_what_was_seen_is_raced_before_an_option_of_the_same_phases() -> None:
    """A fault is priced no lower than what may or may not help there."""
    symptoms = {name: t.symptom for name, t in techniques().items() if t.symptom and t.moves}
    options = [one for one in symptoms.values() if not one.sure]
    late = {
        name
        for name, fault in symptoms.items()
        for option in options
        if fault.sure and not fault.by_line
        if set(option.phases) <= set(fault.phases) and option.expected > fault.expected
    }
    assert not late


def test_a_fault_that_was_not_seen_is_expected_to_give_less() -> None:
    seen = script()
    kept = Candidate(technique("persistent_workers"), {})
    assert seen.expected(kept) == pytest.approx(0.3 * 0.5 * SHARES["data"])
    seen.facts["workers_restarted"] = True
    assert seen.expected(kept) == pytest.approx(0.5 * SHARES["data"])


def test_a_gpu_that_waits_for_the_host_needs_no_faster_kernels() -> None:
    """What shortens kernels is expected to give nothing there, and what shortens launches much."""
    shares = {"forward": 0.3, "backward": 0.6, "optimizer": 0.1}
    facts = dict(FACTS) | {"cuda": True, "fast_half": True, "fp32_matmul_full": True}
    kernels, launches = (Candidate(technique(name), {}) for name in ("tf32", "cuda_graphs"))
    busy, waiting = (
        ScriptProfile(
            dict(facts), dict(shares), starved={name: part * x for name, x in shares.items()}
        )
        for part in (0.0, 1.0)
    )
    assert busy.expected(kernels) > 0 == busy.expected(launches)
    assert waiting.expected(launches) > 0 == waiting.expected(kernels)
    assert busy.bound(kernels.record) == waiting.bound(kernels.record)  # a part may be computed


def test_the_bound_is_amdahls() -> None:
    seen = script()
    assert seen.bound(technique("no_grad_eval")) <= 1 / (1 - 0.08) + 1e-9
    assert seen.bound(technique("loader_workers")) > seen.bound(technique("fused_optimizer"))
    seen.bounds["data"] = 1.05
    assert seen.bound(technique("loader_workers")) == pytest.approx(1.05)


def test_keeping_one_moves_the_bottleneck() -> None:
    seen = script()
    before = seen.bound(technique("fused_optimizer"))
    seen.keep([technique("cached_dataset")], 3.0)
    assert seen.shares["data"] < 0.2
    assert sum(seen.shares.values()) == pytest.approx(1.0, abs=0.02)
    assert seen.bound(technique("fused_optimizer")) > before


def test_what_acts_on_one_line_is_worth_that_line() -> None:
    copies, whole = Candidate(technique("no_copy_from_numpy"), {}), script()
    line = SampledLine("train.py:53", "", "", 0.1)
    payload = ProfilePayload(
        PhaseTimes(0.01), {"data": PhaseTimes(0.008), "other": PhaseTimes(0.002)},
        places={"tensor": line.place}, lines={"data": [line], "other": []},
    )  # fmt: skip
    seen = ScriptProfile.of(payload)
    assert seen.expected(copies) == pytest.approx(0.9 * 0.1 * 0.8)
    assert whole.expected(copies) > 0.3, "nothing was sampled"


def test_a_phase_that_gave_more_than_its_share_keeps_it() -> None:
    """A profile with spinning threads saw 13 % of data loading, the race without them 60 %."""
    seen = script()
    seen.shares.update({"data": 0.13, "forward": 0.3, "backward": 0.5, "evaluation": 0.0})
    seen.keep([technique("loader_workers")], 1.34)
    assert seen.share(technique("cached_dataset")) == pytest.approx(0.13)
    assert seen.bound(technique("cached_dataset")) > 1.1


def test_keeping_two_that_work_on_the_same_phase_shrinks_it_once() -> None:
    one, both = script(), script()
    one.keep([technique("loader_workers")], 1.5)
    both.keep([technique("persistent_workers"), technique("loader_workers")], 1.5)
    assert both.shares == pytest.approx(one.shares)
    assert both.facts["loader_workers"] is True


def test_advice_cannot_be_asked_for() -> None:
    assert known(("no_grad_eval",)) == ("no_grad_eval",)
    with pytest.raises(UsageError, match="nothing to switch on"):
        known(("host_sync",))


@pytest.mark.parametrize(("world", "counts"), [(1, {1, 2, 4}), (2, {1, 2}), (8, set())])
def test_threads_beyond_the_cores_of_all_ranks_are_no_candidates(
    world: int, counts: set[int]
) -> None:
    machine = replace(detect(), logical_cores=4, physical_cores=4)
    found, _ = candidates_for(replace(script(), world=world), Wanted(UNASKED), machine)
    assert {c.values["threads"] for c in found if c.name == "cpu_threads"} == counts


def test_choices_follow_the_machine() -> None:
    four = replace(detect(), logical_cores=4)
    counts = [values["num_workers"] for values in values_of(technique("loader_workers"), four)]
    assert counts == [2, 4]
    assert values_of(technique("no_grad_eval"), four) == [{}]


def test_workers_are_expected_to_give_no_more_than_the_cores_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    seen = script()
    workers = Candidate(technique("loader_workers"), {"num_workers": 2})
    cached = Candidate(technique("cached_dataset"), {})
    assert seen.expected(workers) == pytest.approx(0.5)
    assert seen.expected(cached) == pytest.approx(0.7)


def why(
    name: str, values: dict[str, object], chosen: dict[str, dict[str, object]], **shares: float
) -> str:
    seen = ScriptProfile(dict(FACTS), SHARES | shares)
    return pointless(Candidate(technique(name), values), chosen, seen, Wanted(UNASKED), 0.02)


def test_what_excludes_a_kept_technique_is_raced_while_it_can_give_much_more() -> None:
    workers: dict[str, object] = {"num_workers": 2}
    kept: dict[str, dict[str, object]] = {"cached_dataset": {}}
    assert why("loader_workers", workers, {}) == ""
    assert why("loader_workers", workers, kept, data=0.5) == ""
    assert "with cached_dataset kept, data can give 1.05x at most" in why(
        "loader_workers", workers, kept, data=0.05
    )
    assert "conflicts with fused_pointwise" in why(
        "activation_checkpoint", {}, {"fused_pointwise": {"mode": "default"}}
    )


def test_what_needs_a_technique_that_a_kept_one_excludes_is_not_raced() -> None:
    kept: dict[str, dict[str, object]] = {"cached_dataset": {}}
    assert "needs loader_workers, which conflicts with cached_dataset" in why(
        "persistent_workers", {}, kept
    )


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("cpu_threads", True), ("mixed_precision", True), ("keep_heap", True),
        ("cached_dataset", False), ("loader_workers", False), ("no_grad_eval", False),
        ("async_checkpoint", False), ("persistent_workers", False),
    ],
)  # fmt: skip
def test_plain_steps_do_not_tell_of_what_an_epoch_has_once(name: str, found: bool) -> None:
    assert Candidate(technique(name), {}).plain_steps is found


def test_what_the_profile_could_not_see_is_not_called_inapplicable() -> None:
    script = ScriptProfile({}, {"forward": 1.0})
    _, rows = candidates_for(script, Wanted(set(Numerics)), detect())
    row = next(row for row in rows if row.technique == "no_grad_eval")
    assert row.status is Status.NOT_RACED
    assert row.reason.startswith("no evaluation ran while it was profiled")
    found, _ = candidates_for(script, Wanted(set(Numerics), ("no_grad_eval",)), detect())
    assert [candidate.name for candidate in found] == ["no_grad_eval"]
    seen = ScriptProfile({}, {"forward": 0.8, "evaluation": 0.2})
    _, rows = candidates_for(seen, Wanted(set(Numerics)), detect())
    row = next(row for row in rows if row.technique == "no_grad_eval")
    assert row.status is Status.NOT_APPLICABLE
    trained = ScriptProfile({"eval_trained": True}, {"forward": 1.0})
    _, rows = candidates_for(trained, Wanted(set(Numerics)), detect())
    row = next(row for row in rows if row.technique == "no_grad_eval")
    assert row.status is Status.NOT_APPLICABLE
