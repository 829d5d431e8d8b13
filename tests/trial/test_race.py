"""Races of real processes: the mechanics. How honest they are is tests/bars/."""

import contextlib
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from hotlap.core.errors import NotReachedError, TrialFailedError
from hotlap.core.protocol import BlockReport
from hotlap.core.spec import Mode
from hotlap.trial.launch import Setting
from hotlap.trial.load import LoadMeter
from hotlap.trial.race import RunningRace, race
from hotlap.trial.side import Pace, Side
from hotlap.trial.stats import LAUNCH_SD, Estimate, PairedTest, Verdict
from hotlap.trial.stopping import StoppingRules, StopReason
from hotlap.trial.trial import Block, TimeOverError

MLP = Path(__file__).parent.parent / "scripts" / "mlp.py"


@contextlib.contextmanager
def sides(tmp_path: Path, *commands: list[str], patience: float = 60.0) -> Iterator[list[Side]]:
    made = [
        Side(
            Setting(
                (sys.executable, *map(str, words)),
                Mode.RACE,
                seed=0,
                scratch=tmp_path / "scratch",
                output=tmp_path / f"{index}.log",
            ),
            patience,
        )
        for index, words in enumerate(commands)
    ]
    try:
        yield made
    finally:
        for side in made:
            side.close()


def test_the_faster_side_wins_and_losses_are_equal(tmp_path: Path) -> None:
    with sides(tmp_path, [MLP, "--light", "--sleep", "0.01"], [MLP, "--light"]) as (a, b):
        found = race(a, b, StoppingRules(seconds=30))
        assert found.verdict is Verdict.FASTER
        assert found.estimate.ratio > 1.5
        assert found.lockstep
        common = min(len(a.losses), len(b.losses))
        assert common > 10
        assert a.losses[:common] == b.losses[:common]
        assert found.memory == pytest.approx(1.0, abs=0.2)


@pytest.mark.slow
def test_a_program_that_ends_is_started_again(tmp_path: Path) -> None:
    with sides(tmp_path, [MLP, "--sleep", "0.01", "--steps", "120"], [MLP]) as (a, b):
        found = race(a, b, StoppingRules(seconds=1, precision=0.001, max_pairs=4))
        assert a.launches > 1
        assert found.estimate.ratio > 2


@pytest.mark.slow
def test_one_after_the_other_when_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hotlap.trial.race.available_memory", lambda: 1)
    with sides(tmp_path, [MLP, "--sleep", "0.02"], [MLP]) as (a, b):
        found = race(a, b, StoppingRules(seconds=120, max_pairs=2))
        assert not found.lockstep
        assert a.launches + b.launches >= 3


@pytest.mark.slow
def test_an_interrupted_race_gives_what_its_pairs_have_shown(tmp_path: Path) -> None:
    ready: list[float] = []

    def interrupt(found: Estimate) -> None:
        if found.pairs == 2:
            raise KeyboardInterrupt

    with sides(tmp_path, [MLP, "--sleep", "0.01"], [MLP]) as (a, b):
        rules = StoppingRules(seconds=60, partial=True)
        found = race(a, b, rules, interrupt, on_ready=ready.append)
        assert (found.stopped, found.estimate.pairs) == (StopReason.INTERRUPTED, 2)
        assert len(ready) == 1
        assert 0 < ready[0] < 60
        with pytest.raises(KeyboardInterrupt):
            race(a, b, StoppingRules(seconds=60), interrupt)


def test_a_failure_is_told_with_its_last_words(tmp_path: Path) -> None:
    failure = pytest.raises(TrialFailedError, match="RuntimeError: planted failure")
    with sides(tmp_path, [MLP, "--light", "--fail-at", "3"]) as (a,), failure:
        a.ready()


@pytest.mark.parametrize(
    ("program", "seen"),
    [
        ("print('no torch here')", "no Python process with torch was seen"),
        pytest.param(
            "import torch",
            "torch was imported, but no backward pass was seen",
            marks=pytest.mark.slow,  # tests/batch asks the same
        ),
        (
            "import torch; w = torch.ones(1, requires_grad=True); (w * 2).sum().backward()",
            "a backward pass was seen, but no step of a torch optimizer",
        ),
    ],
)
def test_a_command_without_steps_is_told_what_was_seen(
    tmp_path: Path, program: str, seen: str
) -> None:
    with sides(tmp_path, ["-c", program]) as (a,), pytest.raises(NotReachedError, match=seen):
        a.ready()


def test_patience_ends_the_wait(tmp_path: Path) -> None:
    program = "import torch, time; time.sleep(600)"
    failure = pytest.raises(NotReachedError, match="within 6 s")
    with sides(tmp_path, ["-c", program], patience=6.0) as (a,), failure:
        a.ready()


def test_isolated_python_is_out_of_reach_without_a_namespace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOTLAP_ISOLATION", "guard")
    failure = pytest.raises(NotReachedError, match="trains without hotlap")
    with sides(tmp_path, ["-I", str(MLP), "--steps", "5"]) as (a,), failure:
        a.ready()


def lives(process: psutil.Process) -> bool:
    """Whether it still runs: a killed one may wait a while for init to take note."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_ZOMBIE
    return False


def test_nothing_is_left_of_a_closed_side(tmp_path: Path) -> None:
    with sides(tmp_path, [MLP, "--light"]) as (a,):
        a.ready()
        assert a.trial is not None
        processes = [psutil.Process(pid) for pid in a.trial.pids()]
        assert processes
        a.close()
        assert not any(lives(process) for process in processes)
        assert not (tmp_path / "scratch").exists() or not list((tmp_path / "scratch").iterdir())


INFERENCE = """
import torch
model = torch.nn.Linear(64, 10).eval()
with torch.no_grad():
    for _ in range(60):
        model(torch.randn(8, 64))
"""


@pytest.mark.slow
def test_a_program_that_ends_at_once_is_too_short_to_time(tmp_path: Path) -> None:
    failure = pytest.raises(TrialFailedError, match=r"ends after 60 steps of .* too short to time")
    with sides(tmp_path, ["-c", INFERENCE]) as (a,):
        with failure:
            a.ready()
        assert a.launches <= 4


@pytest.mark.slow
def test_blocks_fit_into_a_short_program(tmp_path: Path) -> None:
    words = [MLP, "--steps", "60", "--sleep", "0.01"]
    with sides(tmp_path, words, words) as (a, b):
        found = race(a, b, StoppingRules(seconds=1, max_pairs=1))
        assert a.ends_after == 60
        assert found.estimate.pairs == 1
        assert a.launches + b.launches <= 8, "no block is tried that does not fit"


@pytest.mark.slow
def test_a_deadline_ends_a_wait_inside_a_block(tmp_path: Path) -> None:
    with sides(tmp_path, [MLP], [MLP, "--sleep", "0.01"]) as (a, b):
        found = race(a, b, StoppingRules(seconds=1, max_pairs=1))
        a.deadline = b.deadline = time.monotonic() + 1.0
        with pytest.raises(TimeOverError):
            b.block(10**6)
        assert time.monotonic() < b.deadline + 5.0
        assert b.trial is None
        with pytest.raises(TimeOverError):
            race(a, b, StoppingRules(seconds=1))
    assert found.estimate.pairs == 1


@pytest.mark.slow
def test_pairs_before_the_deadline_count(tmp_path: Path) -> None:
    with sides(tmp_path, [MLP, "--sleep", "0.01"], [MLP]) as (a, b):
        race(a, b, StoppingRules(seconds=1, max_pairs=1))

        def first_pair(_: object) -> None:
            a.deadline = b.deadline = time.monotonic()

        found = race(a, b, StoppingRules(seconds=60), first_pair)
        assert found.stopped is StopReason.TIME
        assert found.estimate.pairs == 1


@pytest.mark.parametrize(
    ("seconds", "plain_steps", "unit"),
    [(20.0, True, "step"), (20.0, False, "epoch"), (80.0, True, "epoch")],
)
def test_whole_epochs_are_raced_unless_the_time_is_short_and_steps_tell(seconds, plain_steps, unit):
    pace = Pace(step=0.01, epoch=100, epoch_seconds=3.0, warmup=0.0)
    plain = SimpleNamespace(techniques={})
    side = SimpleNamespace(ready_pace=lambda: pace, launches=1, start_up=1.0, setting=plain)
    rules = StoppingRules(seconds=seconds, plain_steps=plain_steps)
    found = RunningRace(side, side, rules, True, LoadMeter())
    assert (found.unit, found.steps) == (unit, 100 if unit == "epoch" else 10)


@pytest.mark.parametrize(
    ("reads_ahead", "seconds", "unit"),
    [(True, 120.0, "epoch"), (True, 30.0, "step"), (True, 20.0, "step"), (False, 120.0, "step")],
)
def test_short_epochs_of_loader_workers_are_raced_whole_where_they_fit(reads_ahead, seconds, unit):
    pace = Pace(step=0.1, epoch=50, epoch_seconds=6.0, warmup=0.0)  # longer than a block may be
    side = SimpleNamespace(
        ready_pace=lambda: pace, launches=1, start_up=1.0, peak=0,
        setting=SimpleNamespace(techniques={}, command=()),
        samples=0.0, reads_ahead=reads_ahead, longest_epoch=6.0, see_epoch=lambda: None,
    )  # fmt: skip
    rules = StoppingRules(seconds=seconds, unknown_change=True)
    found = RunningRace(side, side, rules, True, LoadMeter())
    assert found.unit == unit
    assert found.epoch_shared is (reads_ahead and 24 <= seconds < 72)


def epochs(step: float, once: float) -> Pace:
    return Pace(step, 50, epoch_seconds=50 * step + once, warmup=0.0, once_an_epoch=once / 50)


@pytest.mark.parametrize(
    ("paces", "shared", "ratio"),
    [
        ((epochs(0.6, 0.0), epochs(0.3, 3.0)), True, 0.6 / 0.36),
        ((epochs(0.6, 6.0), epochs(0.6, 0.0)), True, 0.72 / 0.6),
        ((epochs(0.6, 0.0), replace(epochs(0.3, 3.0), epoch=49)), False, 2.0),
        ((epochs(0.6, 0.0), Pace(0.3, 0, 0.0, 0.0)), False, 2.0),
    ],
)
def test_what_an_epoch_has_once_is_shared_out_among_its_steps(paces, shared, ratio):
    """Against the whole epochs: all their seconds over their steps."""
    plain = SimpleNamespace(techniques={})
    a, b = (
        SimpleNamespace(
            ready_pace=lambda pace=pace: pace, launches=1, start_up=1.0, setting=plain, at=0,
            longest_epoch=30.0, see_epoch=lambda: None,
            block=lambda steps, pace=pace: Block(steps, steps, steps * pace.step, 0.1, (), 0, 0),
        )
        for pace in paces
    )  # fmt: skip
    found = RunningRace(a, b, StoppingRules(seconds=40, share_epoch=True), True, LoadMeter())
    assert (found.unit, found.epoch_shared) == ("step", shared)
    found._pair(found.test)
    assert found.test.estimate().ratio == pytest.approx(ratio)


@pytest.mark.parametrize(
    ("workers", "batches", "reads_ahead"),
    [([7], 50, True), ([7], 100, True), ([7], 101, False), ([], 50, False), ([7], 0, False)],
)
def test_only_workers_in_short_epochs_read_ahead(workers, batches, reads_ahead):
    side = Side(Setting(("true",), Mode.RACE))
    report = BlockReport(0, 1, 0.2, steps=10, batches=batches, workers=workers)
    side.trial = SimpleNamespace(blocks=[Block(10, 10, 0.2, 0.1, (), 0, 0, (report,))])
    assert side.reads_ahead is reads_ahead


def test_what_a_launch_showed_first_is_forgotten_by_it_and_kept_of_others() -> None:
    test = PairedTest(launch_sd=LAUNCH_SD)
    for number in range(12):
        test.add(1.3 + 0.01 * (number % 3), 1.0)
    test.launches_differ_by(0.3)
    test.launches_differ_by(0.0)
    assert test.verdict() is Verdict.FASTER
    test.launches_differ_by(0.3)
    test.relaunched()
    test.add(1.3, 1.0)
    test.launches_differ_by(0.0)
    assert test.verdict() is Verdict.INCONCLUSIVE


def test_what_a_launch_explains_is_not_called_before_there_are_more_launches() -> None:
    test = PairedTest(launch_sd=LAUNCH_SD)
    for number in range(12):
        test.add(1.3 + 0.01 * (number % 3), 1.0)
    assert test.verdict() is Verdict.FASTER
    test.launches_differ_by(math.log(1.4))
    assert test.verdict() is Verdict.INCONCLUSIVE
    for _ in range(5):
        test.relaunched()
        for number in range(4):
            test.add(1.6 + 0.01 * (number % 3), 1.0)
    assert test.verdict() is Verdict.FASTER
    one_process = PairedTest()
    one_process.launches_differ_by(1.0)
    for number in range(12):
        one_process.add(1.3 + 0.01 * (number % 3), 1.0)
    assert one_process.verdict() is Verdict.FASTER


def test_what_one_side_alone_came_to_is_no_difference_of_memory():
    a, b = (Side(Setting(("true",), Mode.RACE)) for _ in "ab")
    for side, peaks in ((a, {40: 600, 80: 1000}), (b, {40: 500, 60: 500})):
        side._peaks, side.peak = peaks, max(peaks.values())
    raced = SimpleNamespace(a=a, b=b, pairs=[(SimpleNamespace(at=80), SimpleNamespace(at=60))])
    assert RunningRace._memory(raced) == 1.2, "A evaluated at step 80"
    raced.pairs = [(SimpleNamespace(at=80), SimpleNamespace(at=9))]
    assert RunningRace._memory(raced) == 1.2, "A's first note came later"
    assert a.memory_over(b) == 1.2, "as far as both have run"


def test_what_was_switched_on_in_a_live_process_is_none_of_its_memory():
    side = Side(Setting(("true",), Mode.RACE))
    block = SimpleNamespace(cuda=0, resident=300, special=(), at=0)
    side.trial = SimpleNamespace(
        blocks=[block], losses=[], outputs=[], data=None, held={}, inert={},
        switched=False,
    )  # fmt: skip
    for at, resident, switched in ((10, 300, False), (20, 400, True)):
        block.at, block.resident, side.trial.switched = at, resident, switched
        side._note()
    assert side.peak == 400, "memory has to suffice for it"
    assert side.peak_by(20) == 300
