"""When a race launches again, catches up and stops: with sides that only pretend to run."""

from dataclasses import dataclass, field, replace
from itertools import chain, cycle
from types import SimpleNamespace
from typing import Any

import pytest

from hotlap.core.protocol import BlockReport
from hotlap.trial import race as module
from hotlap.trial.race import Evidence, RaceResult, paired_test, race
from hotlap.trial.side import Pace
from hotlap.trial.stats import Verdict
from hotlap.trial.stopping import StoppingRules, StopReason
from hotlap.trial.trial import Block


@dataclass
class Clock:
    now: float = 0.0

    def monotonic(self) -> float:
        return self.now


@dataclass(eq=False)
class Pretended:
    """A side; `steps` is what a step takes in its first, second, ... process."""

    clock: Clock
    steps: list[float]
    start_up: float = 5.0
    peak: int = 0
    at: int = 0
    threads: int = 1
    passive_wait: bool = False
    steady_heap: bool = False
    trial: Any = None
    samples: float = 0.0
    reads_ahead: bool = False
    ends_after: int = 0
    ends: frozenset[int] = frozenset()
    launches: int = 0
    live: bool = False
    setting: Any = field(default_factory=lambda: SimpleNamespace(command=(), techniques={}))
    wobble: Any = field(default_factory=lambda: cycle([1.0, 1.01, 0.99, 1.0]))

    @property
    def step(self) -> float:
        return self.steps[min(self.launches, len(self.steps)) - 1]

    def start(self) -> None:
        if not self.live:
            self.clock.now += self.start_up
            self.launches += 1
            self.live, self.at = True, 1 + self.launches  # fresh processes need not stand alike

    def first_step(self) -> None:
        self.start()

    def memory_over(self, other: "Pretended", step: float) -> float:
        return self.peak / max(1, other.peak) if step else 0.0

    def ready(self) -> Pace:
        self.start()
        return self.ready_pace()

    def ready_pace(self) -> Pace:
        return Pace(self.step, 0, 0.0, 0.0)

    def block(self, steps: int) -> Block:
        self.ready()
        wall = steps * self.step * next(self.wobble)
        self.clock.now += wall
        self.at += steps
        return Block(steps, self.at, wall, wall, (), 0, 0)

    def catch_up(self, steps: int) -> None:
        self.block(steps)

    def close(self) -> None:
        self.live = False


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    monkeypatch.setattr(module, "busy_now", lambda: False)
    return made


def raced(clock: Clock, a: list[float], b: list[float], **rules: Any) -> RaceResult:
    return race(Pretended(clock, a), Pretended(clock, b), StoppingRules(**rules))  # type: ignore[arg-type]


def test_a_large_difference_is_called_in_one_launch(clock: Clock) -> None:
    found = raced(clock, [0.02], [0.01])
    assert found.verdict is Verdict.FASTER
    assert found.stopped is StopReason.DECIDED
    assert found.launches == 1


def test_a_small_difference_is_called_once_fresh_processes_repeat_it(clock: Clock) -> None:
    found = raced(clock, [0.0107], [0.01], seconds=60.0)
    assert found.verdict is Verdict.FASTER
    assert found.launches > 1


def test_what_fresh_processes_do_not_repeat_is_not_called(clock: Clock) -> None:
    found = raced(clock, [0.0109, 0.01, 0.01], [0.01], seconds=40.0, launches=3)
    assert found.verdict is not Verdict.FASTER
    assert found.launches == 3


def test_equal_sides_are_the_same_after_some_launches(clock: Clock) -> None:
    found = raced(clock, [0.01], [0.01], seconds=60.0)
    assert found.verdict is Verdict.SAME
    assert found.launches > 2
    assert found.seconds_needed == 0


def test_it_is_not_launched_again_where_the_time_does_not_suffice(clock: Clock) -> None:
    found = raced(clock, [0.0107], [0.01], seconds=7.0)
    assert found.launches == 1
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.stopped is StopReason.TIME
    assert 7.0 < found.seconds < 19.0, "both start first"
    assert 0 < found.seconds_needed < 600


def test_what_looks_like_a_gain_may_take_longer(clock: Clock) -> None:
    rules = {"seconds": 9.0, "until_gain": True}
    found = raced(clock, [0.0112], [0.01], seconds_if_promising=60.0, **rules)
    assert found.verdict is Verdict.FASTER
    assert raced(clock, [0.0112], [0.01], seconds_if_promising=9.0, **rules).launches == 1


def test_a_race_ends_once_no_verdict_can_help(clock: Clock) -> None:
    asked: list[float] = []

    def lost() -> bool:
        asked.append(clock.now)
        return len(asked) == 2

    found = raced(clock, [0.0107], [0.01], seconds=60.0, lost=lost)
    assert found.stopped is StopReason.LOST
    assert found.estimate.pairs < raced(clock, [0.0107], [0.01], seconds=60.0).estimate.pairs


def test_a_gain_that_is_lost_is_not_confirmed(clock: Clock) -> None:
    found = raced(clock, [0.02], [0.01], lost=lambda: True)
    assert found.stopped is StopReason.LOST
    assert found.fresh is None


def test_a_candidate_without_a_gain_is_dropped_early(clock: Clock) -> None:
    none = raced(clock, [0.01], [0.0105], seconds=30.0, until_gain=True)
    assert none.seconds < 30.0
    assert none.verdict is not Verdict.FASTER
    assert none.not_faster or none.stopped is StopReason.FUTILE
    futile = raced(clock, [0.01], [0.01], seconds=15.0, until_gain=True)
    assert futile.stopped is StopReason.FUTILE
    assert futile.verdict is Verdict.INCONCLUSIVE


def test_where_a_step_takes_other_samples_times_are_by_sample(clock: Clock) -> None:
    """A step of B takes 1.6 times as long, for twice the samples."""
    sides = Pretended(clock, [0.01], samples=32), Pretended(clock, [0.016], samples=64)
    rules = StoppingRules(unknown_change=True)
    found = race(*sides, rules, busy=False)  # type: ignore[arg-type]
    assert found.verdict is Verdict.FASTER
    assert found.samples == (32, 64)
    assert found.estimate.ratio == pytest.approx(2 / 1.6, rel=0.02)
    assert found.a_step == pytest.approx(0.01, rel=0.02)
    assert found.b_step == pytest.approx(0.016, rel=0.02)
    other = found.with_estimate(replace(found.estimate, ratio=1.3))
    assert other.b_step / other.a_step == pytest.approx(2 / 1.3)
    sides[1].samples = 33  # an epoch's last batch may be in it
    assert race(*sides, rules, busy=False).verdict is Verdict.SLOWER  # type: ignore[arg-type]


@dataclass(eq=False)
class Evaluating(Pretended):
    """A side that evaluates for 3 s after so many steps."""

    every: int = 4

    def block(self, steps: int) -> Block:
        made = super().block(steps)
        due = [at for at in range(made.at - steps + 1, made.at + 1) if at % self.every == 0]
        self.clock.now += 3.0 * len(due)
        special = tuple((at, "eval", self.step + 3.0) for at in due)
        return replace(made, wall=made.wall + 3.0 * len(due), special=special)


@pytest.mark.parametrize(("every", "within", "ratio"), [(4, 0.0, 1.3), (1, 1.0, 3.39 / 3.3)])
def test_steps_as_long_as_a_block_are_timed_without_their_evaluations(
    clock: Clock, every: int, within: float, ratio: float
) -> None:
    sides = Evaluating(clock, [0.39], every=every), Evaluating(clock, [0.3], every=every)
    found = race(*sides, StoppingRules(seconds=60.0), busy=False)  # type: ignore[arg-type]
    assert found.within == (within, within)
    assert found.estimate.ratio == pytest.approx(ratio, rel=0.02)


def test_a_verdict_is_confirmed_by_fresh_pairs(clock: Clock) -> None:
    found = raced(clock, [0.02], [0.01], confirm_pairs=5)
    assert found.fresh is not None
    assert found.fresh.pairs > 5, "pairs are short here, and are to take some seconds"
    assert found.estimate.pairs == found.fresh.pairs + 6
    assert found.fresh.ratio == pytest.approx(2.0, rel=0.05)
    assert raced(clock, [0.01], [0.01], seconds=60.0).fresh is None


def test_a_verdict_that_fresh_pairs_do_not_bear_out_is_not_given(clock: Clock) -> None:
    """B is faster for as long as it takes to say so, and not afterwards."""
    turned = Pretended(clock, [0.01], wobble=chain([0.7] * 6, cycle([1.0, 1.01, 0.99])))
    rules = StoppingRules(seconds=25.0, launches=1)
    found = race(Pretended(clock, [0.01]), turned, rules)  # type: ignore[arg-type]
    assert found.verdict is not Verdict.FASTER


def test_the_side_behind_catches_up(clock: Clock) -> None:
    a, b = Pretended(clock, [0.01]), Pretended(clock, [0.01])
    a.ready()
    a.at = 50
    assert race(a, b, StoppingRules(max_pairs=8)).same_steps  # type: ignore[arg-type]
    b.at += 50
    a.ends_after = b.at + 1
    found = race(a, b, StoppingRules(max_pairs=8))  # type: ignore[arg-type]
    assert not found.same_steps, "it would come to its end first"
    a.ends_after, a.at = 0, b.at + 100_000
    found = race(a, b, StoppingRules(max_pairs=8))  # type: ignore[arg-type]
    assert not found.same_steps, "that would take too long"


def test_a_slowdown_is_too_much_once_it_is_shown(clock: Clock) -> None:
    found = raced(clock, [0.01], [0.013], threshold=1 / 1.05)
    assert found.too_slow
    once = raced(clock, [0.01], [0.0106], threshold=1 / 1.05, seconds=8.0)
    assert once.too_slow is None
    fine = raced(clock, [0.01], [0.01], threshold=1 / 1.05, seconds=60.0)
    assert fine.too_slow is False


@pytest.mark.parametrize(("threads", "closed"), [(1, False), (2, True)])
def test_on_a_busy_machine_both_sides_wait_asleep(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, threads: int, closed: bool
) -> None:
    """A live side of several threads is launched anew for it; one of a single thread is not."""
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    monkeypatch.setattr(module, "busy_now", lambda: True)
    a, b = (Pretended(clock, [0.02], threads=threads), Pretended(clock, [0.01], threads=threads))
    a.ready()
    found = race(a, b, StoppingRules())  # type: ignore[arg-type]
    assert a.passive_wait
    assert b.passive_wait
    assert a.launches == (2 if closed else 1)
    assert found.passive_wait is (threads > 1)


@pytest.mark.parametrize(
    ("command", "alike"),
    [
        ("env OMP_NUM_THREADS=1 python x.py", False),
        ("sh -c 'KMP_BLOCKTIME=1 python x.py'", False),
        ("env MKL_NUM_THREADS=2 OMP_WAIT_POLICY=active python x.py", False),
        ("python x.py --OMP_dir=1", True),
        ("env CUDA_VISIBLE_DEVICES= python x.py", True),
    ],
)
def test_commands_that_set_their_threads_differently_run_as_they_are(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, command: str, alike: bool
) -> None:
    """Sleeping threads on both sides would hide the very difference that is asked for."""
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    monkeypatch.setattr(module, "busy_now", lambda: True)
    a, b = (Pretended(clock, [0.02], threads=2), Pretended(clock, [0.01], threads=2))
    a.setting = SimpleNamespace(command=("python", "x.py"), techniques={})
    b.setting = SimpleNamespace(command=tuple(command.split()), techniques={})
    found = race(a, b, StoppingRules())  # type: ignore[arg-type]
    assert found.passive_wait is a.passive_wait is b.passive_wait is alike


def test_sleep_is_raced_against_threads_that_spin(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "busy_now", lambda: True)
    a, b = (Pretended(clock, [0.02], threads=2), Pretended(clock, [0.01], threads=2))
    a.passive_wait = True
    a.ready()
    b.setting = SimpleNamespace(command=(), techniques={"sleeping_threads": {}})
    assert not race(a, b, StoppingRules()).passive_wait  # type: ignore[arg-type]
    assert not a.passive_wait
    assert a.launches == 2, "it slept, and is launched as the user runs it"


def test_a_wait_policy_of_the_users_own_is_not_said_to_be_ours(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "busy_now", lambda: True)
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    a, b = (Pretended(clock, [0.02], threads=2), Pretended(clock, [0.01], threads=2))
    assert not race(a, b, StoppingRules()).passive_wait  # type: ignore[arg-type]


def test_of_sides_that_do_not_fit_together_each_pair_is_launched(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "available_memory", lambda: 1)
    a, b = Pretended(clock, [0.011], peak=1), Pretended(clock, [0.01])
    found = race(a, b, StoppingRules(seconds=600))  # type: ignore[arg-type]
    assert not found.lockstep
    assert found.verdict is Verdict.FASTER
    assert found.launches == 1


def test_pairs_of_a_race_that_goes_on_from_one_that_was_won_are_all_fresh(clock: Clock) -> None:
    a, rules = Pretended(clock, [0.02]), StoppingRules(seconds=30.0)
    evidence = Evidence(paired_test(rules))
    won = race(a, Pretended(clock, [0.01]), rules, evidence=evidence)  # type: ignore[arg-type]
    assert won.verdict is Verdict.FASTER
    assert won.fresh is not None
    assert won.fresh.pairs >= rules.confirm_pairs
    again = race(a, Pretended(clock, [0.01]), rules, evidence=evidence)  # type: ignore[arg-type]
    assert again.fresh is not None
    assert again.estimate.pairs == won.estimate.pairs + again.fresh.pairs


@dataclass(eq=False)
class Faulting(Pretended):
    """A side; `faults` are the page faults of a step in its first, second, ... process."""

    faults: list[int] = field(default_factory=lambda: [0])

    @property
    def _faults(self) -> int:
        return 40 if self.steady_heap else self.faults[(self.launches - 1) % len(self.faults)]

    @property
    def step(self) -> float:
        return super().step + 2e-6 * self._faults

    def block(self, steps: int) -> Block:
        done = super().block(steps)
        system = steps * 2e-6 * self._faults
        report = BlockReport(
            0, 1, 0.2, steps=steps, cpu=done.wall, system=system, faults=steps * self._faults
        )
        return replace(done, reports=(report,))


def raced_faulting(
    clock: Clock, a: list[int], b: list[int], gain: float = 1.1, *, step: float = 0.01, **rules: Any
) -> tuple[RaceResult, Pretended]:
    one, two = (Faulting(clock, [s], faults=f) for s, f in ((step * gain, a), (step, b)))
    rules = {"seconds": 90.0, "unknown_change": True} | rules
    return race(one, two, StoppingRules(**rules)), one  # type: ignore[arg-type]


def test_page_faults_by_chance_are_taken_out_of_both(clock: Clock) -> None:
    found, side = raced_faulting(clock, [40, 2000], [1500, 40])
    assert found.steady_heap
    assert side.launches == 2 + found.launches, "what was raced before counts no longer"
    assert found.verdict is Verdict.FASTER
    assert found.estimate.ratio == pytest.approx(1.1, rel=0.02)
    assert found.restarts == 0
    assert found.faults is None
    assert found.estimate.pairs < 90.0 / 0.2


def test_long_pairs_leave_time_for_a_verdict_once_heaps_are_kept(clock: Clock) -> None:
    a, b = [40, 100_000, 40], [100_000, 40]
    found, _ = raced_faulting(clock, a, b, 1.15, step=1.8, seconds=60.0)
    assert found.steady_heap
    assert found.verdict is Verdict.FASTER


def test_time_of_pairs_that_count_no_longer_tells_nothing_of_what_is_needed(clock: Clock) -> None:
    found, _ = raced_faulting(clock, [40, 2000], [1500, 40], 1.05, seconds=32.0)
    assert found.steady_heap
    assert found.verdict is Verdict.INCONCLUSIVE
    assert 0 < found.seconds_needed < 60


@pytest.mark.parametrize(
    ("a", "b", "rules"),
    [
        ([2000], [40], {}),  # always those of A: B may well do without
        ([40, 60], [50], {}),  # hardly any
        ([40, 2000], [1500, 40], {"unknown_change": False}),  # a technique is raced
        ([40, 2000], [1500, 40], {"seconds": 13.0}),  # no time for it
    ],
)
def test_heaps_stay_as_they_are(
    clock: Clock, a: list[int], b: list[int], rules: dict[str, Any]
) -> None:
    assert not raced_faulting(clock, a, b, **rules)[0].steady_heap


def test_heaps_are_not_kept_where_memory_is_short(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "available_memory", lambda: 0)
    assert not raced_faulting(clock, [40, 2000], [1500, 40])[0].steady_heap


def test_a_command_that_sets_the_heap_keeps_its_own(clock: Clock) -> None:
    one, two = (Faulting(clock, [0.01], faults=[40, 2000]) for _ in range(2))
    one.setting.command = ("env", "MALLOC_TRIM_THRESHOLD_=1", "python", "train.py")
    rules = StoppingRules(seconds=60.0, unknown_change=True)
    assert not race(one, two, rules).steady_heap  # type: ignore[arg-type]


def test_what_was_raced_counts_until_the_first_pair_with_heaps_that_are_kept(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (
        Faulting(clock, [s], faults=f) for s, f in ((0.011, [40, 2000]), (0.01, [1500, 40]))
    )
    plain = Faulting.block

    def interrupted(side: Faulting, steps: int) -> Block:
        if side.steady_heap:
            raise KeyboardInterrupt
        return plain(side, steps)

    monkeypatch.setattr(Faulting, "block", interrupted)
    rules = StoppingRules(seconds=90.0, unknown_change=True, partial=True)
    found = race(one, two, rules)  # type: ignore[arg-type]
    assert found.stopped is StopReason.INTERRUPTED
    assert found.estimate.pairs > 5
    assert not found.steady_heap
