"""When a race launches both sides once more: sides that only pretend to run."""

from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

import pytest

from hotlap.trial import race as module
from hotlap.trial.race import RaceResult, race
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
    launches: int = 0
    live: bool = False
    wobble: Any = field(default_factory=lambda: cycle([1.0, 1.01, 0.99, 1.0]))

    @property
    def step(self) -> float:
        return self.steps[min(self.launches, len(self.steps)) - 1]

    def ready(self) -> Pace:
        if not self.live:
            self.clock.now += self.start_up
            self.launches += 1
            self.live = True
        return self.ready_pace()

    def ready_pace(self) -> Pace:
        return Pace(self.step, 0, 0.0, 0.0)

    def block(self, steps: int) -> Block:
        self.ready()
        wall = steps * self.step * next(self.wobble)
        self.clock.now += wall
        return Block(steps, 0, wall, wall, (), 0, 0)

    def close(self) -> None:
        self.live = False


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


def raced(clock: Clock, a: list[float], b: list[float], **rules: Any) -> RaceResult:
    return race(Pretended(clock, a), Pretended(clock, b), StoppingRules(**rules))  # type: ignore[arg-type]


def test_a_large_difference_is_called_in_one_launch(clock: Clock) -> None:
    found = raced(clock, [0.02], [0.01])
    assert found.verdict is Verdict.FASTER
    assert found.launches == 1


def test_a_small_difference_is_called_once_fresh_processes_repeat_it(clock: Clock) -> None:
    assert raced(clock, [0.0115], [0.01]).launches == 2
    found = raced(clock, [0.0103], [0.01])
    assert found.verdict is Verdict.FASTER
    assert found.launches == 3


def test_what_fresh_processes_do_not_repeat_is_not_called(clock: Clock) -> None:
    found = raced(clock, [0.0115, 0.01], [0.01])
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.launches == 2


def test_launching_takes_none_of_the_time(clock: Clock) -> None:
    found = raced(clock, [0.0115], [0.01], seconds=8.0)
    assert found.verdict is Verdict.FASTER
    assert clock.now > 20.0  # four start-ups


def test_a_candidate_is_not_launched_again_where_that_would_take_too_long(clock: Clock) -> None:
    common = {"seconds": 8.0, "until_gain": True}
    assert (
        raced(clock, [0.0115], [0.01], seconds_if_promising=40.0, **common).verdict
        is Verdict.FASTER
    )
    short = raced(clock, [0.0115], [0.01], seconds_if_promising=12.0, **common)
    assert short.launches == 1
    assert short.verdict is Verdict.INCONCLUSIVE
    assert short.unrepeated
    assert not short.not_faster


def test_a_large_gain_goes_on_where_another_launch_would_take_too_long(clock: Clock) -> None:
    noisy = Pretended(clock, [0.0135], wobble=cycle([1.1, 0.95, 1.0, 0.9, 1.05]))
    rules = StoppingRules(seconds=20.0, until_gain=True, seconds_if_promising=20.0)
    found = race(noisy, Pretended(clock, [0.01]), rules)  # type: ignore[arg-type]
    assert found.launches == 1
    assert found.estimate.pairs > 6
    assert found.verdict is Verdict.FASTER


def test_long_blocks_get_a_few_pairs_of_each_launch(clock: Clock) -> None:
    found = raced(clock, [4.5], [4.0], seconds=60.0)
    assert found.verdict is Verdict.FASTER
    assert found.launches == 2
    assert found.estimate.pairs == 10


def test_a_second_launch_without_a_gain_ends_a_candidates_race(clock: Clock) -> None:
    found = raced(
        clock, [0.0115, 0.01], [0.01], seconds=30.0, until_gain=True, seconds_if_promising=100.0
    )
    assert found.launches == 2
    assert found.stopped is StopReason.FUTILE
    assert found.estimate.pairs < 20


def test_a_slowdown_is_too_much_once_fresh_processes_repeat_it(clock: Clock) -> None:
    found = raced(clock, [0.01], [0.012], threshold=1 / 1.05)
    assert found.too_slow
    assert found.launches == 2
    once = raced(clock, [0.01], [0.0115, 0.01], threshold=1 / 1.05)
    assert once.too_slow is None
    assert raced(clock, [0.01], [0.01], threshold=1 / 1.05).too_slow is False


def test_of_sides_that_do_not_fit_together_each_pair_is_launched(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "available_memory", lambda: 1)
    a, b = Pretended(clock, [0.011], peak=1), Pretended(clock, [0.01])
    found = race(a, b, StoppingRules(seconds=600))  # type: ignore[arg-type]
    assert not found.lockstep
    assert found.verdict is Verdict.FASTER
    assert found.launches == 1
