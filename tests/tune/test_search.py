"""The search on a made-up track: what is raced when, with a clock of its own."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from hotlap.core.machine import detect
from hotlap.core.numerics import Numerics
from hotlap.core.spec import Mode
from hotlap.trial.launch import Setting
from hotlap.trial.race import RaceResult
from hotlap.trial.side import Pace
from hotlap.trial.stats import Estimate, Verdict
from hotlap.tune import baseline, budget, search
from hotlap.tune import field as field_module
from hotlap.tune.candidates import Script, Wanted
from hotlap.tune.orders import Orders
from hotlap.tune.result import OUT_OF_TIME, Status

START_UP, BLOCK = 4.0, 1.0
GAINS = {"cached_dataset": 3.0, "no_grad_eval": 1.2}


class Clock:
    """Seconds that pass only when something is run; `alike` times as many where like sides race."""

    now = 1000.0
    alike = 1.0

    def __call__(self) -> float:
        return self.now


CLOCK = Clock()


@dataclass(eq=False)
class FakeSide:
    setting: Setting
    patience: float = 0.0
    whole_epoch: bool = False
    live: bool = False
    start_up: float = START_UP
    losses: list[float] = field(default_factory=lambda: [1.0, 0.7, 0.5, 0.4])

    @property
    def trial(self) -> Any:
        return SimpleNamespace(held=dict.fromkeys(self.setting.techniques), inert={})

    @property
    def block(self) -> float:
        speed = 1.0
        for name in self.setting.techniques:
            speed *= GAINS.get(name, 1.0)
        return BLOCK / speed

    def ready(self) -> Pace:
        CLOCK.now += 0.0 if self.live else START_UP
        self.live = True
        return self.ready_pace()

    def ready_pace(self) -> Pace:
        return Pace(self.block, 1, self.block, 0.0)

    def close(self) -> None:
        self.live = False


def fake_race(a: FakeSide, b: FakeSide, rules: Any, on_pair: Any) -> RaceResult:
    a.ready()
    b.ready()
    slow = CLOCK.alike if a.block == b.block else 1.0
    CLOCK.now += slow * rules.fewest_pairs * (a.block + b.block)
    ratio = a.block / b.block
    estimate = Estimate(ratio, 0.98 * ratio, 1.02 * ratio, rules.fewest_pairs, 0.95)
    verdict = Verdict.FASTER if ratio > 1.02 else Verdict.SAME
    return RaceResult(estimate, verdict, "epoch", True, a.block, b.block, 1.0, 1.0, 0.0, 0.0, 1.0)


@pytest.fixture
def track(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(monotonic=CLOCK)
    for module in (search, baseline, budget):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(field_module, "Side", FakeSide)
    monkeypatch.setattr(field_module, "race", fake_race)


class Silent:
    def __init__(self) -> None:
        self.stages: list[str] = []

    def stage(self, text: str) -> None:
        self.stages.append(text)

    def racing(self, *_: Any) -> None: ...

    def pair(self, *_: Any) -> None: ...

    def row(self, *_: Any) -> None: ...


def tuned(seconds: float) -> tuple[Any, list[str]]:
    facts = {"map_style": True, "loader_serial": True, "loaders": 1, "eval_with_grad": True}
    script = Script(facts, {"data": 0.6, "evaluation": 0.3})
    setting = Setting(("python", "train.py"), Mode.RACE)
    wanted = Wanted(set(Numerics), only=("cached_dataset", "no_grad_eval"))
    watcher = Silent()
    tuner = search.Tuner(Orders(setting, wanted, seconds), script, detect(), watcher)
    return tuner.run(), watcher.stages


@pytest.mark.usefixtures("track")
def test_with_time_enough_everything_is_raced() -> None:
    result, stages = tuned(300.0)
    assert [row.technique for row in result.kept][:1] == ["cached_dataset"]
    assert result.ceilings
    assert result.confirmed
    assert result.needed == 0
    assert not any("too short" in stage for stage in stages)


@pytest.mark.usefixtures("track")
def test_where_time_is_tight_the_most_valuable_candidate_is_still_raced() -> None:
    begin = CLOCK.now
    result, _ = tuned(45.0)
    assert [row.technique for row in result.kept] == ["cached_dataset"]
    assert result.confirmed, "and confirmed on fresh processes"
    assert not result.ceilings
    assert CLOCK.now - begin < 45.0 + START_UP


@pytest.mark.usefixtures("track")
def test_where_the_machine_slows_down_before_the_climb_a_candidate_is_still_raced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(CLOCK, "alike", 6.0)
    result, _ = tuned(100.0)
    assert result.floor is not None
    assert not result.ceilings, "what-ifs give way first"
    assert [row.technique for row in result.kept] == ["cached_dataset"]
    assert result.confirmed


@pytest.mark.usefixtures("track")
def test_where_the_time_is_long_over_by_then_nothing_more_is_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(CLOCK, "alike", 20.0)
    begin = CLOCK.now
    result, _ = tuned(100.0)
    after_floor = CLOCK.now - begin
    assert after_floor > 200.0
    assert result.floor is not None
    assert not result.kept
    assert result.needed > after_floor, "and it says which budget would have done"


@pytest.mark.usefixtures("track")
def test_too_short_a_budget_is_said_at_once_with_the_one_that_would_do() -> None:
    begin = CLOCK.now
    result, stages = tuned(20.0)
    assert CLOCK.now - begin <= START_UP, "no time is spent on what leads nowhere"
    assert not result.kept
    assert result.floor is None
    assert "20 s are too short" in stages[-1]
    assert f"{result.needed:.0f} s" in stages[-1]
    assert {row.reason for row in result.outcomes if row.status is Status.NOT_RACED} >= {
        OUT_OF_TIME
    }
    again, _ = tuned(result.needed)
    assert [row.technique for row in again.kept] == ["cached_dataset"]
