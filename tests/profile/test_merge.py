from dataclasses import replace
from pathlib import Path

import pytest

from hotlap.profile.join import Costed
from hotlap.profile.merge import merged
from hotlap.profile.model import NO_BOUND, Finding, Remedy, bound
from hotlap.source.lint import Spot

STEP = 0.01


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("line one\nline two\nline three\nline four\n")
    return path


def costed(path, line, seconds, phase="other", technique="host_sync", name="item", end=0):
    spot = Spot(Path(path), line, 1, name, "it waits", "read less", technique,
                end_line=end or line)  # fmt: skip
    return Costed(spot, seconds, STEP, ((phase, seconds),) if seconds else ())


def waiting(place="train.py:1", technique="loader_workers"):
    remedy = Remedy(technique, "", ("data",), place, 2.0, 0.5)
    return Finding("waiting for data", place, "", 0.5, 2.0, (remedy,))


def test_a_spot_becomes_a_finding_with_its_cost(script):
    found = merged([], [costed(script, 2, 0.002)], script.parent)
    (finding,) = found.findings
    assert finding.what == "it waits: 20% of a step, 2.0 ms"
    assert (finding.place, finding.text) == ("train.py:2", "line two")
    assert finding.most == pytest.approx(bound(0.2, STEP))
    assert finding.remedies[0].id == "host_sync"
    assert found.explained == {"other": pytest.approx(0.002)}
    assert found.places == {"train.py:2"}


def test_what_was_timed_by_itself_gives_way_to_what_claims_its_line(script):
    claims = costed(script, 2, 0.004, technique="foreach_loops", name="ema_loop", end=3)
    timed = costed(script, 3, 0.002, technique="loop_invariants", name="loop_invariants")
    timed = replace(timed, spot=replace(timed.spot, seconds=0.002))
    (finding,) = merged([], [timed, claims], script.parent).findings
    assert finding.pattern == "ema_loop"
    assert len(merged([], [timed], script.parent).findings) == 1


def test_the_same_technique_at_the_same_place_is_one_finding(script):
    own = [waiting("train.py:2")]
    spot = costed(script, 1, 0.004, "data", "loader_workers", end=3)
    assert merged(own, [spot], script.parent).findings == tuple(own)


def test_the_same_technique_elsewhere_is_another(script):
    own = [waiting("train.py:1", "no_copy_from_numpy")]
    spot = costed(script, 3, 0.004, "other", "no_copy_from_numpy")
    assert len(merged(own, [spot], script.parent).findings) == 2


def test_the_cause_of_a_cost_that_is_measured_elsewhere_is_named_by_its_finding(script):
    remedy = Remedy("dynamic_padding", "", ("forward",), "train.py:4", 2.0, 0.5)
    own = Finding("padding", "train.py:4", "", 0.5, 2.0, (remedy,))
    cause = costed(script, 2, 0.005, "forward", "dynamic_padding")
    cause = replace(cause, spot=replace(cause.spot, elsewhere=True), by_phase=())
    (finding,) = merged([own], [cause], script.parent).findings
    assert finding.remedies[0].also == ("train.py:2",)


def test_what_costs_time_in_the_wait_for_data_is_a_remedy_of_it(script):
    spot = costed(script, 3, 0.004, "data", "python_transforms")
    (finding,) = merged([waiting()], [spot], script.parent).findings
    assert [remedy.id for remedy in finding.remedies] == ["loader_workers", "python_transforms"]
    assert finding.remedies[1].share == pytest.approx(0.4)


def test_spots_of_one_pattern_make_one_finding(script):
    spots = [costed(script, 2, 0.001), costed(script, 4, 0.003)]
    (finding,) = merged([], spots, script.parent).findings
    assert finding.place == "train.py:4"
    assert finding.also == ("train.py:2",)
    assert finding.share == pytest.approx(0.4)


def test_a_line_costs_its_time_once(script):
    spots = [costed(script, 2, 0.002), costed(script, 2, 0.002), costed(script, 2, 0.002, name="b")]
    found = merged([], spots, script.parent)
    assert sum(finding.share for finding in found.findings) == pytest.approx(0.2)
    assert found.explained == {"other": pytest.approx(0.002)}
    assert all(not finding.also for finding in found.findings)


@pytest.mark.parametrize(
    ("timed", "words"), [(False, ", of which the backward part is estimated"), (True, "")]
)
def test_what_is_estimated_is_called_so(script, timed, words):
    part = (("forward", 0.001), ("backward", 0.002))
    spot = replace(costed(script, 2, 0.003), by_phase=part, behind=0.002, timed=timed)
    (finding,) = merged([], [spot], script.parent).findings
    assert finding.what == f"it waits: 30% of a step, 3.0 ms{words}"
    assert finding.most == NO_BOUND


def test_what_must_still_be_computed_is_expected_to_give_less_than_it_costs(script):
    removed = costed(script, 2, 0.004)
    computed = costed(script, 4, 0.004, "forward", "fused_attention", "b")
    replaced = replace(computed, spot=replace(computed.spot, differentiated=True))
    found = {f.pattern: f for f in merged([], [removed, replaced], script.parent).findings}
    assert found["item"].expected > 2 * found["b"].expected > 0
    assert found["item"].most == found["b"].most


def test_what_costs_a_part_of_its_lines_has_no_figure_of_its_own(script):
    backward = costed(script, 3, 0.004, phase="backward", technique="ddp_no_sync")
    backward = replace(backward, spot=replace(backward.spot, part_of="ddp_reducing"))
    (found,) = merged((), [backward], script.parent).findings
    assert "which is part of this: " in found.what
    assert (found.share, found.most, found.remedies[0].share) == (0.0, 1.0, 0.0)
    assert 0 < found.expected < backward.share
    assert backward.cost.startswith("part of 4.0 ms of ")


def test_what_is_wrong_in_any_case_is_a_problem(script):
    """Also where its technique is a choice that a race has to judge."""
    wrong = costed(script, 2, 0.0, "", "fused_cross_entropy", "softmax_before_cross_entropy")
    (finding,) = merged([], [wrong], script.parent).findings
    assert finding.problem


@pytest.mark.parametrize("seconds", [0.0, 0.004])
def test_other_random_numbers_are_drawn_faster_where_that_is_seen_to_cost(script, seconds):
    drawn = costed(script, 2, seconds, "other", "few_indices", "shuffled_for_a_few")
    (finding,) = merged([], [drawn], script.parent).findings
    assert finding.problem is bool(seconds)


def test_a_finding_without_a_cost_stands_without_a_figure(script):
    (finding,) = merged([], [costed(script, 2, 0.0)], script.parent).findings
    assert (finding.what, finding.most, finding.expected) == ("it waits", 1.0, 0.0)


def test_nothing_is_said_of_a_file_that_changed(script):
    spot = Costed(costed(script, 2, 0.0).spot, stale=True)
    assert merged([], [spot], script.parent).findings == ()


def test_what_a_problem_proposes_is_no_option_beside_it(script):
    def remedy(name):
        return Remedy(name, "do it", ("forward",), "", 2.0, 0.3)

    option = Finding("forward", "", "", 0.9, 2.0, (remedy("a"), remedy("b")), problem=False)
    alone = replace(option, remedies=(remedy("a"),))
    problem = replace(option, remedies=(remedy("a"),), problem=True)
    found = merged([option, alone, problem], [], script.parent).findings
    assert [[r.id for r in one.remedies] for one in found] == [["b"], ["a"]]
    assert found[1].problem
