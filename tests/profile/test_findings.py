from dataclasses import replace
from typing import Any

import pytest

from hotlap.core.protocol import PhaseTimes, ProfilePayload, RankTimes, decode
from hotlap.core.registry import technique
from hotlap.profile.findings import WORTH, advised, padded, proposed, seen_in
from hotlap.profile.model import CACHE_SECONDS, CACHE_SHARE, NO_BOUND, Line, acted_on, bound

STEP = 0.02
EVICTED = CACHE_SECONDS / STEP
"""Part of a step that work of some length costs the rest through the caches."""


def seen(
    phases: dict[str, float],
    lines: dict[str, list[tuple[str, float]]] | None = None,
    step: float = STEP,
    places: dict[str, str] | None = None,
    faults: float = 0.0,
    starved: dict[str, float] | None = None,
    **facts: Any,
) -> Any:
    rest = 1.0 - sum(phases.values())
    payload = {
        "facts": {"map_style": True, "loader_serial": True, "loaders": 1, **facts},
        "places": {"loader": "train.py:3", "dataset": "train.py:9", **(places or {})},
        "step": {"mean": step},
        "faults": faults,
        "starved": None if starved is None else {n: s * step for n, s in starved.items()},
        "phases": {n: {"mean": s * step} for n, s in {"forward": rest, **phases}.items()},
    }
    drawn = {
        phase: tuple(Line(place, "", "", share) for place, share in found)
        for phase, found in (lines or {}).items()
    }
    return seen_in(decode(ProfilePayload, payload), drawn)


def ids(found: Any) -> set[str]:
    return {remedy.id for finding in found for remedy in finding.remedies}


def test_workers_are_proposed_where_the_model_waits_for_data():
    assert "loader_workers" in ids(proposed(seen({"data": 0.5})))


@pytest.mark.parametrize(
    "phases", [{}, {"data": 0.01}, {"other": 0.5}, {"evaluation": 0.5}], ids=str
)
def test_workers_are_not_proposed_where_nothing_waits(phases):
    assert "loader_workers" not in ids(proposed(seen(phases)))


def test_workers_are_not_proposed_for_a_wait_shorter_than_they_cost():
    assert "loader_workers" not in ids(proposed(seen({"data": 0.4}, step=0.001)))


def test_workers_that_were_seen_to_start_anew_are_a_problem_and_others_an_option():
    """Of what keeps them one is proposed: by whether the loader itself is made anew."""
    facts = {"loader_serial": False, "loader_workers": 2, "loader_not_persistent": True}
    kept = {"persistent_workers", "loader_reuse"}
    for restarted, rebuilt in ((False, False), (True, False), (True, True)):
        more = {"workers_restarted": restarted, "loader_rebuilt": rebuilt}
        (found,) = [f for f in proposed(seen({"data": 0.5}, **facts, **more)) if ids([f]) & kept]
        assert ids([found]) & kept == {"loader_reuse" if rebuilt else "persistent_workers"}
        assert found.problem is restarted
        (remedy,) = [remedy for remedy in found.remedies if remedy.id in kept]
        assert ("not persistent" in remedy.says) is not restarted
        assert found.problem or remedy.expected == pytest.approx(0.5 * 0.3 * 0.5)


def test_workers_are_not_proposed_where_there_are_some():
    assert "loader_workers" not in ids(proposed(seen({"data": 0.5}, loader_serial=False)))


def test_a_fault_on_one_line_is_told_in_the_phase_it_costs():
    lines = {"other": [("train.py:21", 0.9)], "data": [("train.py:4", 1.0)]}
    found = proposed(
        seen({"other": 0.5}, lines, places={"tensor": "train.py:21"}, tensor_from_numpy=True)
    )
    (finding,) = [f for f in found if "no_copy_from_numpy" in ids([f])]
    assert finding.what.startswith("code between the phases: 50%")
    assert finding.what.endswith(technique("no_copy_from_numpy").symptom.says)


def test_of_a_fault_in_the_computation_the_cause_is_said_and_its_place_pointed_at():
    lines = {"forward": [("train.py:21", 0.9)]}
    found = proposed(seen({"backward": 0.5}, lines, places={"anomaly": "train.py:5"}, anomaly=True))
    (finding,) = [one for one in found if one.problem]
    assert finding.what.endswith("anomaly detection is on")
    assert finding.place == "train.py:5"


def test_an_evaluation_without_a_line_of_the_user_is_told_by_the_call_that_runs_it():
    trainer = {"evaluation": "train.py:90"}
    (found,) = advised(seen({"evaluation": 0.4}, {}, places=trainer), {}, frozenset())
    assert (ids([found]), found.place) == ({"evaluation_often"}, "train.py:90")


def test_sixteen_bits_without_hardware_for_them_are_a_problem():
    lines, places = (
        {"forward": [("train.py:9", 1.0)]},
        {"half": "train.py:9", "model": "train.py:9"},
    )
    phases = {"forward": 0.5, "backward": 0.4}
    (found,) = advised(seen(phases, lines, places=places, slow_half=True), {}, frozenset())
    assert found.what.startswith("computing in 16 bits, for which this processor has no matrix")
    assert (ids([found]), found.place, found.problem) == ({"slow_half"}, "train.py:9", True)
    assert found.share == pytest.approx(0.9)
    assert not advised(seen(phases, lines, places=places), {}, frozenset())


def test_an_evaluation_that_takes_much_of_the_time_is_told_by_what_asks_for_it():
    lines = {"evaluation": [("train.py:31", 0.8), ("train.py:30", 0.2)]}
    places = {"evaluation": "train.py:30", "evaluated": "train.py:52"}
    (found,) = advised(seen({"evaluation": 0.4}, lines, places=places), {}, frozenset())
    assert (ids([found]), found.place) == ({"evaluation_often"}, "train.py:52")
    assert not advised(seen({"evaluation": 0.2}, lines, places=places), {}, frozenset())
    targets = seen({"evaluation": 0.4}, lines, places=places, asks_each_step=True)
    assert not advised(targets, {}, frozenset())
    explained = {"evaluation": 0.3 * STEP}
    assert not advised(seen({"evaluation": 0.4}, lines), explained, frozenset())


def test_only_what_nothing_else_explains_is_advised():
    lines = {"other": [("train.py:21", 0.9), ("train.py:22", 0.1)]}
    whole = advised(seen({"other": 0.5}, lines), {}, frozenset())
    assert ids(whole) == {"python_in_step"}
    assert whole[0].place == "train.py:21"
    explained = {"other": 0.25 * STEP}
    (left,) = advised(seen({"other": 0.5}, lines), explained, frozenset({"train.py:21"}))
    assert left.place == "train.py:22"
    assert left.share == pytest.approx(0.25)
    assert advised(seen({"other": 0.5}, lines), {"other": 0.45 * STEP}, frozenset()) == []


def test_the_way_into_the_optimizer_is_no_code_between_the_phases():
    lines = {"other": [("train.py:30", 1.0)]}
    assert (
        advised(seen({"other": 0.3}, lines, places={"step": "train.py:30"}), {}, frozenset()) == []
    )


ZEROED = {"zero_grad_false": True}
AT_ZERO_GRAD = {"zero_grad": "train.py:7"}


@pytest.mark.parametrize(
    ("share", "step", "most"),
    [
        (0.5, 1e6, 2.0),  # Amdahl's law: what the caches cost is nothing beside it
        (0.5, 0.02, 1 / (0.5 - 0.075)),  # 1.5 ms of the other half were cache misses
        (0.1, 0.01, 1 / (0.9 - 0.08)),  # the work is too short to cost so much
        (0.79, 0.0154, 1 / (0.21 - 0.0015 / 0.0154)),
        (0.9, 0.002, 30.0),  # the rest is at most 3 times as fast
        (0.0, 0.001, 1.0),
        (1.0, 1.0, NO_BOUND),
    ],
)
def test_without_work_the_rest_of_a_step_is_as_fast_as_with_warm_caches(
    share: float, step: float, most: float
) -> None:
    assert bound(share, step) == pytest.approx(most)


def test_zeroed_gradients_are_bounded_by_their_phases_and_expected_by_their_line():
    lines = {"optimizer": [("train.py:7", 0.25), ("train.py:9", 0.75)]}
    found = proposed(
        seen({"optimizer": 0.2, "backward": 0.4}, lines, places=AT_ZERO_GRAD, **ZEROED)
    )
    (remedy,) = [r for f in found for r in f.remedies if r.id == "grads_to_none"]
    assert remedy.place == "train.py:7"
    assert remedy.most == pytest.approx(1 / (1 - 0.6 - EVICTED))
    assert remedy.expected == pytest.approx(3 * 0.25 * 0.2)


def test_a_bound_that_follows_from_more_phases_than_the_finding_s_says_so():
    lines = {"optimizer": [("train.py:7", 1.0)]}
    whole = seen({"optimizer": 0.2, "backward": 0.4}, lines, places=AT_ZERO_GRAD, **ZEROED)
    (finding,) = [f for f in proposed(whole) if "grads_to_none" in ids([f])]
    assert finding.what.startswith("the optimizer: 20% of a step, 4.0 ms, with backward 60%")
    assert finding.most == pytest.approx(bound(0.6, STEP))


def test_a_bound_that_follows_from_one_line_says_so():
    lines = {"other": [("train.py:21", 0.6), ("train.py:22", 0.4)]}
    whole = seen({"other": 0.5}, lines, places={"tensor": "train.py:21"}, tensor_from_numpy=True)
    (finding,) = [f for f in proposed(whole) if "no_copy_from_numpy" in ids([f])]
    assert "50% of a step, 10.0 ms, 30% on its line; " in finding.what
    assert finding.most == pytest.approx(bound(0.3, STEP))


def test_a_bound_of_the_finding_s_own_share_has_no_more_words():
    whole = seen({"data": 0.5}, {"data": [("train.py:9", 1.0)]})
    (finding,) = [f for f in proposed(whole) if "loader_workers" in ids([f])]
    assert finding.what == "waiting for data: 50% of a step, 10.0 ms"


def test_zeroed_gradients_without_a_sample_have_no_bound_to_tell():
    for lines in ({}, {"other": [("train.py:9", 1.0)]}):
        shares = {"other": 0.5, "optimizer": 0.2}
        assert "grads_to_none" not in ids(
            proposed(seen(shares, lines, places=AT_ZERO_GRAD, **ZEROED))
        )


def test_a_cache_is_not_proposed_for_what_lies_in_memory():
    lines = {"data": [("train.py:9", 1.0)]}
    assert "cached_dataset" in ids(proposed(seen({"data": 0.5}, lines)))
    assert "cached_dataset" not in ids(proposed(seen({"data": 0.5}, lines, in_memory=True)))


def test_page_faults_are_told_with_their_part_of_the_step():
    whole = seen({}, places={"model": "train.py:5"}, faults=0.08, page_faults=True)
    (finding,) = [f for f in proposed(whole) if "keep_heap" in ids([f])]
    assert finding.what == "page faults: 8% of a step, 1.6 ms"
    assert finding.place == "train.py:5"
    assert finding.most == NO_BOUND
    assert not finding.problem


def test_a_few_page_faults_are_left_alone():
    assert "keep_heap" not in ids(proposed(seen({}, faults=0.04, page_faults=False)))


OPTIONS = {"model": True, "float32_model": True, "fast_half": True, "compiler": True}


def test_options_are_no_problems_and_bounded_by_the_measured_share():
    found = proposed(seen({"other": 0.14}, places={"model": "train.py:5"}, **OPTIONS))
    assert {f.problem for f in found} == {False}
    remedies = {r.id: r for f in found for r in f.remedies}
    assert {"cpu_threads", "mixed_precision", "fused_pointwise"} <= set(remedies)
    assert remedies["fused_pointwise"].most == pytest.approx(1 / (0.14 - EVICTED))
    assert remedies["cpu_threads"].most == NO_BOUND


HALF_STARVED = {"forward": 0.15, "backward": 0.3, "optimizer": 0.1}
"""Parts of a step in which a GPU waits for the host: half of forward and backward."""


@pytest.mark.parametrize(
    ("name", "starved", "part"),
    [
        ("tf32", None, 0.9),  # not on a GPU: the phases are computation
        ("tf32", {}, 0.9),
        ("tf32", HALF_STARVED, 0.45),
        ("cuda_graphs", {}, 0.0),
        ("cuda_graphs", HALF_STARVED, 0.45),
        ("fused_pointwise", HALF_STARVED, 0.9),  # faster kernels, and fewer launches
    ],
)
def test_a_technique_acts_on_kernels_or_on_launches_or_on_both(
    name: str, starved: dict[str, float] | None, part: float
) -> None:
    shares = {"forward": 0.3, "backward": 0.6, "optimizer": 0.1}
    assert acted_on(technique(name).symptom, shares, starved, {}) == pytest.approx(part)


def test_more_waiting_than_a_technique_s_phases_take_leaves_it_nothing():
    assert acted_on(technique("tf32").symptom, {"forward": 0.3}, {"forward": 0.4}, {}) == 0.0


@pytest.mark.parametrize(("name", "part"), [("mixed_precision", 0.4), ("ddp_compress", 0.6)])
def test_ranks_that_wait_for_gradients_are_helped_by_sending_less_alone(name: str, part: float):
    shares, waits = {"forward": 0.3, "backward": 0.6}, {"backward": 0.5}
    assert acted_on(technique(name).symptom, shares, None, waits) == pytest.approx(part)


def test_faster_kernels_are_not_proposed_where_the_gpu_waits_for_the_host():
    places = {"model": "train.py:5"}
    facts = {"cuda": True, "fp32_matmul_full": True, **OPTIONS}
    shares, waits = {"backward": 0.6, "optimizer": 0.1}, {"forward": 0.3, "backward": 0.6}
    for starved, proposes in ((None, True), ({}, True), (waits, False)):
        found = proposed(seen(shares, places=places, starved=starved, **facts))
        assert ("tf32" in ids(found)) is proposes
        assert "fused_pointwise" in ids(found)


def test_sending_the_buffers_of_a_ddp_model_is_a_problem_with_its_cost():
    facts = {"ddp": True, "ddp_sends_buffers": True, **OPTIONS}
    places = {"model": "train.py:5", "ddp": "train.py:6"}
    for sent, share in (((0.2, 0.3), 0.2), ((0.2, 0.001), 0.001)):  # in seconds of a step of 1 s
        ranks = [
            RankTimes(rank, 50, 1.0, {"forward": 0.5}, exposed=0.0, buffers=spent)
            for rank, spent in enumerate(sent)
        ]
        phases = {"forward": PhaseTimes(0.5), "backward": PhaseTimes(0.5)}
        payload = ProfilePayload(
            PhaseTimes(1.0, steps=50), phases, world=2, ranks=ranks, facts=facts, places=places
        )
        found = [one for one in proposed(seen_in(payload, {})) if "ddp_buffers" in ids([one])]
        assert [(one.share, one.place) for one in found] == (
            [(pytest.approx(share), "train.py:6")] if share > 0.02 else []
        )
        assert all(one.problem and "sending DDP's buffers" in one.what for one in found)


def test_a_learning_rate_of_zero_is_a_problem_that_says_of_how_many_parameters():
    shares = {"forward": 0.2, "backward": 0.6, "optimizer": 0.2}
    places = {"optimizer": "train.py:6"}
    (found,) = advised(seen(shares, places=places, zero_rate=0.9), {}, set())
    assert found.problem
    assert (found.place, ids([found])) == ("train.py:6", {"zero_rate"})
    assert "the learning rate of 90.0% of the parameters is 0; their gradients" in found.what
    assert found.expected == pytest.approx(0.9 * 0.5 * 0.8)
    assert not ids(advised(seen(shares, places=places, zero_rate=0.0), {}, set()))


NAMED_WAITS = {"iterable_workers", "slow_samples", "slow_sampler", "dispatched_batches"}


@pytest.mark.parametrize(
    ("facts", "named"),
    [
        ({"map_style": False}, {"iterable_workers"}),
        ({"map_style": False, "fed_by_workers": True}, {"slow_samples"}),
        ({"fed_by_workers": True}, {"slow_samples"}),
        ({"fed_by_workers": True, "slow_sampler": True}, {"slow_sampler"}),
        ({"map_style": False, "dispatched_batches": True},
         {"iterable_workers", "dispatched_batches"}),
        ({"loaders": 0, "map_style": False}, set()),
        ({}, set()),  # loader_workers is for it
    ],
)  # fmt: skip
def test_a_wait_for_data_that_no_technique_explains_is_a_problem(
    facts: dict[str, Any], named: set[str]
) -> None:
    found = advised(seen({"data": 0.8}, **facts), {}, set())
    assert ids(found) & NAMED_WAITS == named
    assert all(one.problem and one.share == pytest.approx(0.8) for one in found if named)
    explained = advised(seen({"data": 0.8}, **facts), {"data": 0.8 * STEP}, set())
    assert not ids(explained) & named


def test_options_for_a_small_part_of_a_step_come_behind_those_for_a_large_one():
    facts = {"optimizer_unfused": True, "linear_layers": True, **OPTIONS}
    shares = {"forward": 0.1, "backward": 0.1, "optimizer": 0.8}
    places = {"model": "train.py:5", "optimizer": "train.py:6"}
    found = [one for one in proposed(seen(shares, places=places, **facts)) if not one.problem]
    found.sort(key=lambda one: one.expected, reverse=True)
    assert [one.what.partition(":")[0] for one in found] == [
        "the whole step", "the optimizer", "forward and backward"
    ]  # fmt: skip
    whole = next(one for one in found if one.what.startswith("the whole step"))
    assert [remedy.id for remedy in whole.remedies] == ["cpu_threads"]


def test_what_shortens_the_forward_of_a_program_that_does_not_train_is_one_finding():
    model = {"model": True, "inference": True, "linear_layers": True, **OPTIONS}
    found = proposed(seen({"other": 0.14}, places={"model": "embed.py:5"}, **model))
    assert len(found) == 1
    assert found[0].what.startswith("the forward pass")
    assert {"mixed_precision", "inference_mode"} <= ids(found)


def test_a_wait_for_data_is_a_problem_from_a_tenth_of_the_step():
    for share, problem in ((0.08, False), (0.3, True)):
        whole = seen({"data": share}, {"data": [("train.py:9", 1.0)]})
        (finding,) = [f for f in proposed(whole) if "cached_dataset" in ids([f])]
        assert finding.problem is problem
        assert finding.most == pytest.approx(bound(share, STEP))


def test_workers_that_share_the_cores_leave_the_wait_for_data_without_a_bound():
    lines = {"data": [("train.py:9", 1.0)]}
    for workers, most in ((0, 1 / (0.5 - EVICTED)), (2, NO_BOUND)):
        found = proposed(seen({"data": 0.5}, lines, fed_by_workers=workers))
        assert {f.most for f in found if "cached_dataset" in ids([f])} == {most}


def with_calls(**shares: float) -> Any:
    calls = tuple((f"{name.replace('_', '.')}()", share) for name, share in shares.items())
    whole = seen({"other": 0.5})
    return replace(whole, lines={"other": (Line("train.py:21", "", "a; b", 1.0, calls),)})


def test_the_call_that_blocks_is_named_not_its_line():
    found = advised(with_calls(os_fsync=0.8, loss_item=0.2), {}, frozenset())
    (finding,) = [f for f in found if "blocking_call" in ids([f])]
    assert finding.what == "`os.fsync()` in the step: 40% of a step, 8.0 ms"
    assert finding.place == "train.py:21"
    assert finding.most == pytest.approx(1 / (0.6 - EVICTED))
    assert finding.problem


@pytest.mark.parametrize(
    ("call", "waits"),
    [
        ('" ".join(map(str, row))', False),
        ("', '.join(names)", False),
        ("os.path.join(folder, name)", False),
        ("os.sep.join(parts)", False),
        ("worker.join()", True),
        ("self.threads[0].join()", True),
    ],
)
def test_text_that_is_put_together_waits_for_nothing(call: str, waits: bool) -> None:
    lines = {"other": (Line("train.py:21", "", "a", 1.0, ((call, 0.9),)),)}
    found = advised(replace(seen({"other": 0.5}), lines=lines), {}, frozenset())
    assert ("blocking_call" in ids(found)) is waits


def test_a_call_that_computes_does_not_block():
    found = advised(with_calls(loss_item=0.9), {}, frozenset())
    assert "blocking_call" not in ids(found)


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("os.fsync(f)", "os.fsync(f) (80% of the line)"),
        ("out[y, x]", ""),
        ("print(a); os.fsync(f)", ""),
    ],
)
def test_only_a_call_inside_the_line_is_named(text, call):
    assert Line("a.py:1", "", "print(a); os.fsync(f)", 1.0, ((text, 0.8),)).call == call


TF32 = {"cuda": True, "fp32_matmul_full": True}
NORMS = {**OPTIONS, "calls_norm": True}


def remedy_of(name: str, whole: Any) -> Any:
    (found,) = [r for f in proposed(whole) for r in f.remedies if r.id == name]
    return found


def test_what_acts_on_an_unmeasured_part_of_a_phase_has_no_bound():
    places = {"model": "train.py:5", "ddp": "train.py:6"}
    ddp = {"ddp": True, "ddp_searches_unused": True, "ddp_unused": False}
    whole = seen({"backward": 0.4, "other": 0.2}, places=places, **NORMS, **ddp)
    assert remedy_of("fused_norm", whole).most == NO_BOUND
    assert remedy_of("tf32", replace(whole, facts={**whole.facts, **TF32})).most == NO_BOUND
    assert remedy_of("fused_pointwise", whole).most == pytest.approx(1 / (0.2 - EVICTED))


def test_a_problem_that_costs_an_unknown_part_of_the_work_has_no_share_and_comes_last():
    ddp = {"ddp": True, "ddp_searches_unused": True, "ddp_unused": False}
    places = {"model": "train.py:5", "ddp": "train.py:6"}
    whole = seen({"backward": 0.4, "data": 0.2}, places=places, **NORMS, **ddp)
    (search,) = [f for f in proposed(whole) if "ddp_unused_search" in ids([f])]
    assert search.problem
    assert search.what == technique("ddp_unused_search").symptom.says
    assert (search.place, search.share, search.most) == ("train.py:6", 0.0, 1.0)
    (data,) = [f for f in proposed(whole) if "loader_workers" in ids([f])]
    assert 0 < search.expected < WORTH < data.expected


def test_threads_that_were_not_seen_to_spin_are_an_option():
    facts = {"contended_threads": True, "threads_waited": None, **NORMS}
    whole = seen({"backward": 0.4}, places={"model": "train.py:5"}, **facts)
    (found,) = [f for f in proposed(whole) if "sleeping_threads" in ids([f])]
    assert not found.problem
    (mine,) = [r for r in found.remedies if r.id == "sleeping_threads"]
    assert "waited" not in found.what + mine.says
    assert mine.says.startswith("an OpenMP thread that waits keeps its core busy")


def test_the_line_of_a_wait_for_data_is_the_one_that_takes_most_of_all_loading():
    # decoding takes more of the evaluation's data, but less of all
    lines = {
        "data": [("train.py:36", 0.5), ("train.py:33", 0.3)],
        "evaluation_data": [("train.py:33", 0.6)],
    }
    whole = seen({"data": 0.5, "evaluation_data": 0.1}, lines)
    (found,) = [f for f in proposed(whole) if "loader_workers" in ids([f])]
    assert found.place == "train.py:36"
    assert found.what.startswith("waiting for data: 60% of a step, 12.0 ms (10% in evaluation)")
    more = seen({"data": 0.5, "evaluation_data": 0.3}, lines)
    (found,) = [f for f in proposed(more) if "loader_workers" in ids([f])]
    assert found.place == "train.py:33"


@pytest.mark.parametrize(("most", "spread"), [(0.2, True), (0.6, False)])
def test_a_wait_for_data_that_no_line_takes_much_of_says_so(most, spread):
    others = [(f"train.py:{line}", (1 - most) / 5) for line in range(40, 45)]
    whole = seen({"data": 0.5}, {"data": [("train.py:36", most), *others]})
    (found,) = [f for f in proposed(whole) if "loader_workers" in ids([f])]
    assert ("spread over several lines, 20% of it at the costliest" in found.what) is spread


@pytest.mark.parametrize(("samples", "clear"), [((14, 13), False), ((60, 30), True)])
def test_of_few_samples_no_line_is_called_the_costliest(samples, clear):
    counts = [*samples, *[samples[1] - 2] * 3]
    lines = tuple(
        Line(f"train.py:{at}", "load", "x = y", count / sum(counts), samples=count)
        for at, count in enumerate(counts, 36)
    )
    whole = replace(seen({"data": 0.5}, places={"loader": "train.py:9"}), lines={"data": lines})
    (found,) = [f for f in proposed(whole) if "loader_workers" in ids([f])]
    assert ("at the costliest" in found.what) is clear
    assert ("of which none stands out" in found.what) is not clear
    assert found.place == ("train.py:36" if clear else "train.py:9")


@pytest.mark.parametrize(("samples", "said"), [(1, True), (9, True), (10, False)])
def test_a_line_known_from_few_samples_says_so(samples, said):
    lines = {"data": (Line("train.py:36", "load", "x = y", 1.0, samples=samples),)}
    whole = replace(seen({"data": 0.5}, places={"loader": "train.py:9"}), lines=lines)
    (found,) = [f for f in proposed(whole) if "loader_workers" in ids([f])]
    counted = "1 sample" if samples == 1 else f"{samples} samples"
    assert (f"the line is known from {counted} only" in found.what) is said


def test_threads_that_spin_are_expected_to_cost_what_they_waited():
    facts = {"contended_threads": True, "threads_waited": 0.8, **NORMS}
    whole = seen({"backward": 0.4}, places={"model": "train.py:5"}, **facts)
    (found,) = [f for f in proposed(whole) if "sleeping_threads" in ids([f])]
    assert found.what.startswith("threads waited for a core 80% of the time; OpenMP threads spin")
    assert found.expected == pytest.approx(0.8 * 0.9)


def test_the_bound_of_an_operator_is_that_of_its_measured_part():
    whole = seen({"backward": 0.4, "other": 0.2}, places={"model": "train.py:5"}, **NORMS)
    found = remedy_of("fused_norm", replace(whole, operators={"fused_norm": 0.1}))
    assert found.most == pytest.approx(1 / (1 - 0.1 * 0.8 * (1 + CACHE_SHARE)))
    assert found.expected == pytest.approx(0.3 * 0.08)
    assert "fused_norm" not in ids(proposed(replace(whole, operators={"fused_norm": 0.01})))


def test_padding_is_priced_by_what_a_shorter_batch_leaves_out():
    facts = {"padded_share": 0.7, "padded_columns": 0.5}
    places = {"model": "train.py:7"}
    (finding,) = padded(seen({"backward": 0.5, "data": 0.2}, places=places, **facts))
    assert finding.problem
    assert finding.what.startswith("computing on padding: 40% of a step")
    assert "70% of the input positions are padding" in finding.what
    assert finding.share == finding.expected == pytest.approx(0.4)
    assert finding.place == "train.py:7"
    assert finding.most == finding.remedies[0].most == pytest.approx(bound(0.4, STEP))
    assert "square" not in finding.what + " ".join(finding.remedies[0].notes)


@pytest.mark.parametrize("attention", ["attends", "transformers"])
def test_padding_of_attention_is_bounded_by_the_square_of_the_length(attention):
    facts = {"padded_share": 0.7, "padded_columns": 0.5, attention: True}
    (finding,) = padded(seen({"backward": 0.5, "data": 0.2}, **facts))
    assert finding.share == finding.expected == pytest.approx(0.4)
    assert finding.most == pytest.approx(bound(0.8 * (1 - 0.5**2), STEP))
    assert "40% of a step" in finding.what
    assert "(60% if all of forward and backward grew with the square" in finding.what


@pytest.mark.parametrize("recurrent", [True, False])
def test_of_a_recurrent_layer_it_is_said_that_less_padding_gives_other_results(recurrent):
    facts = {"padded_share": 0.7, "padded_columns": 0.5, "recurrent": recurrent}
    (finding,) = padded(seen({"backward": 0.5}, **facts))
    notes = " ".join(finding.remedies[0].notes)
    assert ("unless it is given packed sequences" in notes) is recurrent
    assert ("different results with less of it" in notes) is recurrent


def test_only_who_uses_transformers_is_told_of_its_collator():
    facts = {"padded_share": 0.7, "padded_columns": 0.5}
    for used in (True, False):
        (finding,) = padded(seen({"backward": 0.5}, transformers=used, **facts))
        notes = " ".join(finding.remedies[0].notes)
        assert ("DataCollatorWithPadding" in notes) is used
        assert ("pad_sequence" in notes) is not used


@pytest.mark.parametrize("facts", [{}, {"padded_share": 0.7, "padded_columns": 0.1}], ids=str)
def test_little_padding_is_no_finding(facts):
    assert not padded(seen({"backward": 0.5}, **facts))


@pytest.mark.parametrize("call", ["dist.all_reduce(loss)", "torch.distributed.barrier()"])
def test_a_collective_call_of_the_script_in_the_step_is_a_problem(call):
    lines = {"other": (Line("train.py:7", "", call, 0.9, ((call, 0.9),)),)}
    found = replace(seen({"other": 0.2}), lines=lines)
    (finding,) = [
        one for one in advised(found, {}, frozenset()) if "collective_in_step" in ids([one])
    ]
    assert finding.place == "train.py:7"
    assert finding.share == pytest.approx(0.2 * 0.9 * 0.9)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ('self.log("loss", loss, sync_dist=True)', "sync_dist"),
        ("self.log_dict(found, sync_dist=not args.quick)", "sync_dist"),
        ("dist.all_reduce(loss)", "added up on each rank"),
        ('self.log("loss", loss, sync_dist=False)', None),
        ('self.log("loss", loss, sync_dist = False)', None),
        ('self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)', None),
        ("time.sleep(0.1)", None),
    ],
)
def test_in_a_training_step_of_a_trainer_it_is_told_apart_from_the_forward_pass(call, told):
    lines = {"forward": (Line("train.py:7", "", call, 0.9, ((call, 0.9),)),)}
    found = advised(replace(seen({"forward": 0.5}, distributed=True), lines=lines), {}, frozenset())
    named = [one for one in found if "collective_in_step" in ids([one])]
    assert [told in one.remedies[0].says for one in named] == ([True] if told else [])
    assert all(one.share == pytest.approx(0.5 * 0.9 * 0.9) for one in named)
    assert "blocking_call" not in ids(found)


def test_ranks_that_wait_twice_are_told_of_both_calls_but_of_one_that_writes():
    calls = (
        ("dist.all_reduce(loss)", 0.4), ("dist.barrier()", 0.2), ("file.write(text)", 0.3),
        ("dist.broadcast(x, 0)", 0.05),
    )  # fmt: skip
    lines = tuple(
        Line(f"train.py:{7 + at}", "", call, share, ((call, 1.0),))
        for at, (call, share) in enumerate(calls)
    )
    found = replace(seen({"other": 0.2}), lines={"other": lines})
    named = [one for one in advised(found, {}, frozenset()) if "in the step" in one.what]
    assert [one.place for one in named] == ["train.py:7", "train.py:8"]
    assert sum(one.share for one in named) == pytest.approx(0.2 * 0.6)


@pytest.mark.parametrize("call", ["functools.reduce(add, xs)", "torch.gather(x, 0, i)"])
def test_what_only_sounds_collective_is_none(call):
    lines = {"other": (Line("train.py:7", "", call, 0.9, ((call, 0.9),)),)}
    found = advised(replace(seen({"other": 0.2}), lines=lines), {}, frozenset())
    assert "collective_in_step" not in ids(found)


@pytest.mark.parametrize(("text", "told"), [("x = self.read(i)", True), ("for x in ld:", False)])
def test_the_head_of_a_loop_is_no_line_that_a_sample_costs(text, told):
    whole = seen({"data": 0.5}, {"data": [("train.py:31", 0.8)]}, loader_serial=True,
                 places={"dataset": "train.py:31"})  # fmt: skip
    (line,) = whole.lines["data"]
    whole = replace(whole, lines={"data": (replace(line, text=text),)})
    assert ("slow_line" in ids(proposed(whole))) is told


@pytest.mark.parametrize("workers", [False, True])
def test_what_a_sampler_costs_is_its_own_and_no_worker_takes_it_away(workers):
    lines = {"data": [("train.py:31", 0.8), ("train.py:30", 0.2)]}
    facts = {"loader_serial": not workers, "fed_by_workers": workers}

    def remedies(sampler):
        places = {"dataset": "train.py:31"} | ({"sampler": "train.py:31"} if sampler else {})
        whole = seen({"data": 0.5}, lines, places=places, slow_sampler=sampler, **facts)
        found = [*proposed(whole), *advised(whole, {}, frozenset())]
        return {one.id: one for each in found for one in each.remedies}

    by_sample, by_sampler = remedies(sampler=False), remedies(sampler=True)
    assert ("slow_line" in by_sample) == (not workers)
    assert ("slow_samples" in by_sample) == workers
    assert not {"slow_line", "slow_samples"} & by_sampler.keys()
    assert by_sampler["slow_sampler"].place == "train.py:31"
    if not workers:
        assert by_sampler["loader_workers"].expected < by_sample["loader_workers"].expected / 4
