"""What the times of several ranks say: who waits for whom, for how long, and why."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hotlap.core.protocol import PhaseTimes, ProfilePayload, RankTimes, SampledLine
from hotlap.profile.model import communicated_shares
from hotlap.profile.ranks import late_for_a_core, ranks_of, straggling

FORWARD = 0.002


def rank(number, data=0.001, exposed=0.001, **more):
    """A rank whose step lasts as long as its data, what it computes and its wait."""
    phases = {"data": data, "forward": FORWARD, "backward": 0.004 + exposed, "other": 0.0005}
    phases |= more.pop("phases", {})
    return RankTimes(number, 100, sum(phases.values()), phases, exposed=exposed, **more)


def payload(*ranks, world=0):
    step = PhaseTimes(ranks[0].step, steps=100)
    return ProfilePayload(step, {}, world=world or len(ranks), ranks=list(ranks))


WAITS, LATE = rank(0, exposed=0.021), rank(1, data=0.021)


def test_the_wait_for_the_last_rank_is_parted_from_communication():
    first, last = ranks_of(payload(WAITS, LATE))
    assert (first.straggler, last.straggler) == (pytest.approx(0.02), 0.0)
    assert first.communication == last.communication == pytest.approx(0.001)
    assert first.phases["backward"] == last.phases["backward"] == pytest.approx(0.004)
    assert last.work - first.work == pytest.approx(0.02)


def test_the_last_rank_is_named_with_the_phase_and_the_line_that_make_it_late():
    lines = {"data": [SampledLine("train.py:9", "f", "time.sleep(1)", 0.9, 50)]}
    (found,) = straggling(payload(WAITS, replace(LATE, lines=lines)))
    assert "waiting for rank 1: 70% of a step, 20.0 ms; its data loading makes it late" in (
        found.what
    )
    assert (found.place, found.text) == ("train.py:9", "time.sleep(1)")
    assert found.problem
    assert found.share == pytest.approx(0.02 / LATE.step)
    assert 1 / (1 - found.share) <= found.most < 10
    assert [remedy.id for remedy in found.remedies] == ["straggler"]


def test_of_three_ranks_no_more_is_promised_than_what_the_next_one_leaves():
    (found,) = straggling(payload(WAITS, LATE, rank(2, data=0.013, exposed=0.009)))
    assert found.share == pytest.approx(0.008 / LATE.step)


@pytest.mark.parametrize(
    ("phase", "said"),
    [
        ("saving", "its saving makes it late"),
        ("other", "its code between the phases makes it late"),
        ("evaluation_data", "its evaluation makes it late"),
    ],
)
def test_what_one_rank_does_alone(phase, said):
    alone = rank(0, phases={phase: 0.02})
    (found,) = straggling(payload(alone, rank(1, exposed=0.021)))
    assert "waiting for rank 0" in found.what
    assert said in found.what


def test_a_rank_whose_passes_are_both_longer_has_more_to_compute():
    slow = rank(1, data=0.002, phases={"forward": 0.004, "backward": 0.007, "other": 0.002})
    (found,) = straggling(payload(rank(0, exposed=0.0075), slow))
    assert "its forward and backward make it late" in found.what
    assert "samples of similar length" in found.remedies[0].says
    assert found.remedies[0].phases == ("forward", "backward")


def test_a_rank_that_is_slower_everywhere_has_no_cause_named():
    slow = rank(1, data=0.003, phases={"forward": 0.003, "backward": 0.0055, "other": 0.0035})
    (found,) = straggling(payload(rank(0, exposed=0.0075), slow))
    assert "no single phase stands out" in found.what
    assert found.place == ""


LEFT_ALONE = {
    "equal ranks": (rank(0), rank(1)),
    "a small difference": (rank(0, exposed=0.0013), rank(1, data=0.0013)),
    "chance": (WAITS, replace(LATE, errors={"data": 0.007})),
    "few steps": (WAITS, replace(LATE, steps=9)),
    "no log of DDP's": (replace(WAITS, exposed=None), replace(LATE, exposed=None)),
    "a rank that is not known": (WAITS, LATE),
    "one that waits for a core": (WAITS, replace(LATE, core=0.0195)),
    "one that is late by little beside the waits for a core of both": (
        rank(0, exposed=0.004, core=0.01),
        rank(1, data=0.004, core=0.01),
    ),
}


@pytest.mark.parametrize("case", LEFT_ALONE)
def test_no_rank_is_blamed(case):
    world = 3 if case == "a rank that is not known" else 2
    assert straggling(payload(*LEFT_ALONE[case], world=world)) == []


@pytest.mark.parametrize("case", ["no log of DDP's", "a rank that is not known", "few steps"])
def test_what_is_not_known_of_every_rank_is_not_split(case):
    found = ranks_of(payload(*LEFT_ALONE[case], world=3 if "rank" in case else 2))
    assert [(one.straggler, one.communication) for one in found] == [(None, None)] * 2


def test_waits_for_a_core_that_all_ranks_share_excuse_none():
    both = replace(WAITS, core=0.0195), replace(LATE, core=0.0195)
    (found,) = straggling(payload(*both))
    assert found.share == pytest.approx(0.02 / LATE.step)
    assert "its data loading makes it late" in found.what
    assert late_for_a_core(payload(*both)) == []


def test_of_work_that_is_only_shared_unequally_no_more_is_expected_than_sharing_it_saves():
    slow = rank(1, phases={"backward": 0.024})
    (found,) = straggling(payload(rank(0, exposed=0.021), slow))
    (remedy,) = found.remedies
    assert "shared equally, the same work makes a step 10.0 ms shorter" in remedy.says
    assert remedy.expected == pytest.approx(found.share / 2)
    assert found.most >= 1 / (1 - found.share)


def test_a_phase_is_not_blamed_for_a_wait_for_a_core():
    (found,) = straggling(payload(WAITS, replace(LATE, core=0.012)))
    assert found.share == pytest.approx(0.008 / LATE.step)
    waits = rank(0, exposed=0.021)
    both = rank(1, data=0.011, phases={"other": 0.0105}, core=0.009)
    (found,) = straggling(payload(waits, both))
    assert "no single phase stands out" in found.what


def test_a_rank_that_is_late_for_a_core_is_noted_as_that():
    (note,) = late_for_a_core(payload(*LEFT_ALONE["one that waits for a core"]))
    assert "rank 1 arrives last" in note
    assert "wait for a core" in note
    proved = (WAITS, replace(LATE, core=0.012))
    for ranks in ((WAITS, LATE), proved, LEFT_ALONE["equal ranks"], LEFT_ALONE["chance"]):
        assert late_for_a_core(payload(*ranks)) == []


def test_waiting_for_gradients_is_known_where_every_rank_is():
    phases = {name: PhaseTimes(spent) for name, spent in WAITS.phases.items()}
    both = replace(payload(WAITS, replace(LATE, buffers=0.003)), phases=phases)
    assert communicated_shares(both) == {
        "backward": pytest.approx(0.001 / WAITS.step), "forward": 0.0
    }  # fmt: skip
    assert communicated_shares(replace(both, world=3)) == {}
    assert communicated_shares(replace(both, ranks=[WAITS, replace(LATE, exposed=None)])) == {}


def test_a_program_of_one_rank_has_no_ranks():
    alone = ProfilePayload(PhaseTimes(0.01), {})
    assert (ranks_of(alone), straggling(alone), late_for_a_core(alone)) == ((), [], [])
    assert communicated_shares(alone) == {}


BUFFERS = {"phases": {"forward": FORWARD + 0.02}, "buffers": 0.02}


def test_a_wait_in_the_broadcast_of_buffers_is_a_wait():
    late = rank(0, data=0.021)
    (found,) = straggling(payload(late, rank(1, **BUFFERS)))
    assert "waiting for rank 0" in found.what
    assert ranks_of(payload(late, rank(1, **BUFFERS)))[1].phases["forward"] == (
        pytest.approx(FORWARD)
    )


def collective(samples=1000, share=0.95):
    calls = [("dist.all_reduce(loss)", 1.0)]
    return {"other": [SampledLine("train.py:9", "f", "", share, samples, calls)]}


def test_a_collective_of_the_scripts_own_is_a_wait_and_as_sure_as_its_samples():
    waits = rank(0, phases={"other": 0.021}, lines=collective())
    (found,) = straggling(payload(waits, rank(1, data=0.0215)))
    assert "waiting for rank 1" in found.what
    assert found.share == pytest.approx(0.95 * 0.021 / 0.029, abs=0.01)
    phases = waits.phases | {"other": 0.006}
    for samples, times in ((400, 1), (4, 0)):
        unsure = replace(waits, lines=collective(samples, 0.5), phases=phases)
        assert len(straggling(payload(unsure, rank(1, data=0.002)))) == times


SCRIPT = Path(__file__).parents[1] / "scripts" / "late_rank.py"


def profiled(folder, *options):
    """The profile of two real ranks."""
    launch = ["-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
    command = [sys.executable, *launch, "--nproc-per-node", "2", str(SCRIPT), *options]
    done = subprocess.run(
        [sys.executable, "-m", "hotlap", "profile", "--json", "--budget", "8", *command],
        cwd=folder,
        env=os.environ | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("late", [0, 1])
def test_of_two_real_ranks_the_late_one_is_named_with_its_line(tmp_path, late):
    found = profiled(tmp_path, "--late", str(late))
    waits = {one["rank"]: one["straggler"] for one in found["ranks"]}
    assert waits[late] == 0
    assert waits[1 - late] > 0.02
    ours = [
        one
        for one in found["findings"]
        if any(remedy["id"] == "straggler" for remedy in one["remedies"])
    ]
    assert [one["problem"] for one in ours] == [True]
    assert f"waiting for rank {late}" in ours[0]["what"]
    assert "its data loading makes it late" in ours[0]["what"]
    assert "time.sleep" in ours[0]["text"]


@pytest.mark.slow
def test_of_two_equal_real_ranks_none_is_blamed(tmp_path):
    found = profiled(tmp_path)
    assert [one["rank"] for one in found["ranks"]] == [0, 1]
    assert all(one["communication"] > 0 for one in found["ranks"])
    ids = {remedy["id"] for one in found["findings"] for remedy in one["remedies"]}
    assert "straggler" not in ids
