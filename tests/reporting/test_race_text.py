"""The outcome of a race, as a person and as a program reads it."""

import io
import math
import time
from dataclasses import replace

import pytest
from rich.console import Console

from hotlap.reporting import race_text
from hotlap.trial.launch import SLEEPING_THREADS
from hotlap.trial.load import LoadSummary
from hotlap.trial.race import RaceResult
from hotlap.trial.stats import Estimate, Verdict
from hotlap.trial.stopping import StopReason

COMMANDS = (("python", "a.py"), ("python", "b.py"))
FOUND = RaceResult(
    Estimate(1.1, 1.04, 1.16, 14, 0.95), Verdict.FASTER, "epoch", True, 0.02, 0.018, 1.1, 1.0, 0, 0,
    9, launches=2,
)  # fmt: skip
INCONCLUSIVE = replace(FOUND, verdict=Verdict.INCONCLUSIVE, launches=1)


def again(seconds: float) -> str:
    return f"hotlap race --budget {60 + seconds:.0f}s a -- b"


def shown(found: RaceResult, limit: float | None = None) -> str:
    out = Console(width=100, force_terminal=False, highlight=False)
    with out.capture() as capture:
        race_text.show(out, found, COMMANDS, again=again, limit=limit)
    return " ".join(capture.get().split())


def test_the_pairs_and_the_launches_they_are_of_are_told() -> None:
    assert "B is faster" in shown(FOUND)
    assert "1.10x [1.04, 1.16] (95% interval, from 14 pairs of blocks in 2 launches, " in shown(
        FOUND
    )
    assert "in 1 launch, " in shown(INCONCLUSIVE)


def test_what_speeds_are_by_is_told() -> None:
    words = "a step of A takes 32 samples and one of B 64: speeds are by sample"
    assert words in shown(replace(FOUND, samples=(32.0, 64.0)))
    assert "samples" not in shown(FOUND)


def test_what_plain_steps_leave_out_of_short_epochs_is_told() -> None:
    assert "fill their queues" in shown(replace(FOUND, unit="step", queues_left_out=True))
    assert "fill their queues" not in shown(FOUND)


def test_programs_that_end_by_the_clock_are_told_from_those_that_end_after_their_steps() -> None:
    again = replace(FOUND, restarts=20)
    assert "ends by the clock" in shown(replace(again, ends_vary=True))
    assert "ends by the clock" not in shown(again)
    assert "started again 20 times" in shown(again)


def test_why_it_is_inconclusive_is_told() -> None:
    assert "too busy" in shown(INCONCLUSIVE)
    settles = shown(replace(INCONCLUSIVE, seconds_needed=40.0))
    assert "about 40.0 s more of racing would settle it hotlap race --budget 100s a" in settles
    assert "hotlap race" not in shown(INCONCLUSIVE)
    assert "more of racing" not in shown(replace(INCONCLUSIVE, seconds_needed=math.inf))


def test_the_load_and_what_was_done_about_it_are_reported() -> None:
    load = LoadSummary(load_average=5.2, pressure=0.4, steal=0.0, waited=0.31)
    said = shown(replace(FOUND, load=load, passive_wait=True))
    assert "load average 5.2, CPU pressure 40%, the raced threads waited for a core 31%" in said
    assert SLEEPING_THREADS in said
    assert "OMP_WAIT_POLICY=passive, KMP_BLOCKTIME=0" in said
    assert "stolen" not in said
    assert "OMP_WAIT_POLICY" not in shown(FOUND)
    assert race_text.document(replace(FOUND, load=load), COMMANDS)["load"]["pressure"] == 0.4


def test_it_is_said_what_was_left_out_of_the_times_and_where_it_was_not() -> None:
    by_steps = replace(FOUND, unit="step")
    assert "evaluations and checkpoints left out" in shown(by_steps)
    assert "took" not in shown(replace(by_steps, left_out=(0.05, 0.02)))
    part = shown(replace(by_steps, left_out=(0.28, 0.04)))
    assert "left out; what was left out took 28% of A's time and 4% of B's" in part
    each = shown(replace(by_steps, within=(0.0, 1.0)))
    assert "but not where each step of a block had one (B)" in each
    assert "plain steps" not in each


def test_that_times_are_corrected_is_said_where_they_are() -> None:
    words = "times and speed are corrected for background load"
    assert words in shown(replace(FOUND, corrected=True))
    assert words not in shown(FOUND)


def test_programs_that_end_soon_are_told_to_train_longer() -> None:
    assert "started again 30 times" in shown(replace(FOUND, restarts=30))
    assert "started again" not in shown(replace(FOUND, restarts=2))


def test_only_what_is_faster_earns_its_start_back() -> None:
    late = replace(FOUND, b_warmup=3.0)
    assert "pays off after 1500 steps" in shown(late)
    assert "pays off" not in shown(replace(FOUND, b_warmup=1.0)), "so much two starts differ by"
    assert "pays off" not in shown(replace(late, verdict=Verdict.INCONCLUSIVE))


def test_with_a_limit_it_is_told_whether_it_holds() -> None:
    assert "B is slower than allowed" in shown(replace(FOUND, too_slow=True))
    assert "B is not slower than allowed" in shown(replace(INCONCLUSIVE, too_slow=False))
    assert "allowed" not in shown(FOUND)


def test_a_pipe_is_told_each_stage_and_is_not_silent_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hotlap.reporting.live_screen.SILENCE_SECONDS", 0.05)
    out = Console(width=200, force_terminal=False, file=io.StringIO())
    live = race_text.Follow(out, 60.0, enabled=True)
    with live.showing():
        live.ready(12.0)
        live.pair(FOUND.estimate)
        time.sleep(0.3)
    settling, settled, *more = out.file.getvalue().splitlines()
    assert settling.startswith("hotlap: settling both commands")
    assert "on top of the 1 min 0 s to race" in settling
    assert settled == "hotlap: settled after 1.0 s; racing for about 1 min 0 s"
    assert "racing, 1.0 s of 1 min 0 s: speed B over A 1.10x [1.04, 1.16], 14 pairs" in more[-1]
    out = Console(file=io.StringIO())
    with race_text.Follow(out, 60.0, enabled=False).showing():
        pass
    assert not out.file.getvalue()


def test_a_race_that_takes_longer_than_planned_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hotlap.reporting.live_screen.SILENCE_SECONDS", 0.05)
    out = Console(width=200, force_terminal=False, file=io.StringIO())
    live = race_text.Follow(out, 0.1, enabled=True)
    with live.showing():
        live.ready(0.1)
        time.sleep(0.3)
    assert "racing, 1.0 s of 100.0 ms (six pairs are run in any case)" in out.file.getvalue()


def test_what_six_pairs_take_is_said_where_the_budget_is_shorter() -> None:
    out = Console(width=200, force_terminal=False)
    live = race_text.Follow(out, 60.0, enabled=True)
    with out.capture() as capture:
        live.ready(100.0)
    assert "racing for about 1 min 40 s for six pairs of blocks" in capture.get()


def test_an_interrupted_race_says_what_it_has_found() -> None:
    stopped = {"stopped": StopReason.INTERRUPTED}
    assert "interrupted: not decided" in shown(replace(INCONCLUSIVE, **stopped))
    assert "1.10x [1.04, 1.16]" in shown(replace(INCONCLUSIVE, **stopped))
    assert "interrupted: B is faster" in shown(replace(FOUND, **stopped))


def test_a_limit_that_was_not_decided_is_named_with_what_b_took() -> None:
    e = Estimate(0.684, 0.466, 1.006, 8, 0.95)
    found = replace(INCONCLUSIVE, estimate=e, seconds=60.0, seconds_needed=4.0)
    said = shown(found, 1.05)
    assert (
        "could not tell whether B is slower than allowed (1.05x): it took 1.46x [0.99, 2.15] as "
        "long as A; raise --budget" in said
    )
    assert "hotlap race --budget 120s a" in said
    assert "would settle it" not in said, "that is of another question"
    unknown = replace(found, estimate=Estimate(0.7, 0.0, math.inf, 1, 0.95))
    assert "slower than allowed (1.05x); raise --budget" in shown(unknown, 1.05)


def test_a_limit_that_was_decided_needs_no_more_racing() -> None:
    said = shown(replace(INCONCLUSIVE, too_slow=False, seconds_needed=40.0), 1.05)
    assert "B is not slower than allowed" in said
    assert "settle" not in said
    assert "hotlap race" not in said


def test_no_command_races_for_hours() -> None:
    said = shown(replace(INCONCLUSIVE, seconds_needed=7000.0))
    assert "try a calmer machine" in said
    assert "hotlap race" not in said


def test_a_revision_is_a_label_in_front_of_the_command() -> None:
    assert race_text.contestant(("working tree:", "bash", "my run.sh")) == (
        "working tree: bash 'my run.sh'"
    )


def test_a_program_reads_verdict_and_launches() -> None:
    told = race_text.document(FOUND, COMMANDS)
    assert told["verdict"] == "faster"
    assert told["launches"] == 2
    assert told["too_slow"] is None
    assert told["max_slowdown"] is None
    assert race_text.document(FOUND, COMMANDS, 1.05)["max_slowdown"] == 1.05


def test_page_faults_that_launches_differ_by_are_named_with_what_takes_them_out() -> None:
    said = shown(replace(INCONCLUSIVE, faults=(33.4, 1074.2)))
    assert "page faults a step: A 33, B 1,074" in said
    assert "MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=2147483647 hotlap race" in said
    assert "page faults" not in shown(INCONCLUSIVE)


def test_a_race_with_heaps_that_are_kept_says_so() -> None:
    said = shown(replace(INCONCLUSIVE, steady_heap=True))
    assert "both sides ran with a malloc that keeps freed memory (MALLOC_MMAP_MAX_=0" in said


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ("python train.py", "env OMP_WAIT_POLICY=passive python train.py", True),
        ("OMP_WAIT_POLICY=passive a", "OMP_WAIT_POLICY=passive b", False),
        ("OMP_NUM_THREADS=1 a", "a", False),
    ],
)
def test_a_difference_in_how_threads_wait_holds_at_the_load_of_the_race(
    first: str, second: str, said: bool
) -> None:
    out = Console(width=100, force_terminal=False)
    with out.capture() as capture:
        race_text.show(out, FOUND, [first.split(), second.split()])
    assert ("this holds at the load of the race" in " ".join(capture.get().split())) is said
