"""The search with made-up processes and a clock: what is raced when, and what is kept."""

import math
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hotlap.core.errors import NotReachedError, TrialFailedError
from hotlap.core.machine import detect
from hotlap.core.protocol import PhaseTimes, ProfilePayload, decode
from hotlap.core.recipe import Kept, Measured, Recipe
from hotlap.core.registry import technique as registered
from hotlap.core.spec import Mode
from hotlap.core.technique import Numerics
from hotlap.profile.look import Look
from hotlap.trial.data_parity import DataUse
from hotlap.trial.launch import Setting
from hotlap.trial.race import RaceResult
from hotlap.trial.side import Launch, Pace
from hotlap.trial.stats import Estimate, Verdict
from hotlap.trial.trial import TimeOverError
from hotlap.tune import races, search, state, time_plan
from hotlap.tune.candidates import Candidate, Wanted
from hotlap.tune.races import NO_WHOLE_EPOCHS
from hotlap.tune.result import (
    ENDED,
    OUT_OF_TIME,
    RACE_STANDS,
    Outcome,
    Status,
    TuneResult,
    UpperBound,
    recipe_of,
)
from hotlap.tune.state import Levels, TuneConfig, expected_gain

START_UP, BLOCK = 4.0, 1.0
GAINS = {"cached_dataset": 3.0, "no_grad_eval": 1.2, "loader_workers": 1.0}
FACTS = {
    "map_style": True,
    "loader_serial": True,
    "two_batches_ahead": True,
    "loaders": 1,
    "eval_with_grad": True,
}
LOSSES = [1.0, 0.7, 0.5, 0.4, 0.35, 0.3]


@dataclass
class World:
    """What the fake processes do; `slow` multiplies the time of an A/A test's pairs."""

    now: float = 1000.0
    slow: float = 1.0
    gains: dict[str, float] = field(default_factory=lambda: dict(GAINS))
    open: set[str] = field(default_factory=set)
    fails: dict[str, Exception] = field(default_factory=dict)
    losses: dict[str, list[float]] = field(default_factory=dict)
    nudged: list[float] = field(default_factory=lambda: LOSSES)
    again: list[float] = field(default_factory=lambda: LOSSES)
    launched_again: list[float] = field(default_factory=list)
    raced: list[dict[str, Any]] = field(default_factory=list)
    launched: int = 0
    start_up: float = START_UP
    peak: int = 1000
    epoch: float = 1.0
    epoch_steps: int = 0
    pace_epoch: int = 1
    inert: set[str] = field(default_factory=set)
    unsettled: float = 20.0
    state: set[str] = field(default_factory=set)
    profiled: Any = None
    launched_at_profile: int = 0
    ahead: set[str] = field(default_factory=set)
    at_race: Callable[[int], None] = lambda _: None
    compilations: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.now


WORLD = World()
"""The world of the test that runs."""


@dataclass(eq=False)
class FakeSide:
    setting: Setting
    patience: float = 0.0
    whole_epoch: bool = False
    epochs: bool = True
    passive_wait: bool = False
    live: bool = False
    begun: float = -1.0
    start_up: float = START_UP
    peak: int = 0
    data: DataUse = field(default_factory=lambda: DataUse(state=set(WORLD.state)))
    outputs: tuple[object, ...] = ()
    deadline: float = math.inf
    log: list[Launch] = field(default_factory=list)
    starting: float = 0.0
    launches: int = 0
    tried: set[str] = field(default_factory=set)
    ran_on: bool = False

    @property
    def trial(self) -> Any:
        return SimpleNamespace() if self.live else None

    @property
    def held(self) -> dict[str, Any]:
        known = {*self.setting.techniques, *self.tried}
        return {name: None for name in known if name not in WORLD.inert}

    @property
    def losses(self) -> list[float]:
        if self.setting == self.setting.perturbed():
            return WORLD.nudged
        names = [name for name in self.setting.techniques if name in WORLD.losses]
        return WORLD.losses[names[0]] if names else WORLD.again if self.ran_on else LOSSES

    @property
    def losses_again(self) -> list[float]:
        return [] if self.setting.techniques else WORLD.launched_again

    def catch_up(self, steps: int) -> None:
        self.at, self.ran_on = self.at + steps, True
        WORLD.now += steps * self.block

    def memory_over(self, other: "FakeSide") -> float:
        return self.peak / max(1, other.peak)

    has_workers = False
    ends_after = 0
    inert: dict[str, str] = field(default_factory=dict)
    happened: Counter[str] = field(default_factory=Counter)
    at: int = 2

    @property
    def pace(self) -> Pace:
        return self.ready_pace()

    @property
    def epoch_steps(self) -> int:
        return WORLD.epoch_steps

    @property
    def longest_epoch(self) -> float:
        return WORLD.epoch * self.block

    @property
    def block(self) -> float:
        speed = 1.0
        for name in self.setting.techniques:
            speed *= WORLD.gains.get(name, 1.0)
        return BLOCK / speed

    def start(self) -> None:
        if not self.live and self.begun < 0:
            self.begun = WORLD.now
            self.launches += 1
            self.log.append(Launch(WORLD.now))
            WORLD.launched += 1
            WORLD.ahead |= set(self.setting.techniques)

    def first_step(self) -> None:
        self.start()

    def hold(self) -> None: ...

    def ready(self) -> Pace:
        self.start()
        before = WORLD.now
        WORLD.now = WORLD.now if self.live else max(WORLD.now, self.begun + WORLD.start_up)
        self.starting += WORLD.now - before
        if WORLD.now > self.deadline:
            WORLD.now = self.deadline
            self.close()
            raise TimeOverError("the time was over")
        if "fused_pointwise" in self.setting.techniques:
            WORLD.compilations.append(self.deadline - WORLD.now)
            WORLD.now = self.deadline
            self.close()
            raise TimeOverError("the time was over")
        for name, error in WORLD.fails.items():
            if name in (self.setting.techniques or {"plain": {}}):
                raise error
        self.live = True
        return self.ready_pace()

    def ready_pace(self) -> Pace:
        return Pace(self.block, WORLD.pace_epoch, self.block, 0.0)

    def close(self) -> None:
        if self.begun >= 0:
            self.log[-1].ended = WORLD.now
        self.live, self.begun = False, -1.0


def fake_race(
    a: FakeSide, b: FakeSide, rules: Any, on_pair: Any, evidence: Any = None, **_: Any
) -> RaceResult:
    if evidence is not None:
        evidence.begin(a)
        evidence.launches.add(a.launches)
        evidence.seconds += 12.0
    race = {
        "on": sorted(b.setting.techniques), "against": sorted(a.setting.techniques),
        "rules": rules, "evidence": evidence, "live": (a.live, b.live),
        "asleep": (a.passive_wait, b.passive_wait),
    }  # fmt: skip
    a.ready()
    b.ready()
    WORLD.at_race(len(WORLD.raced))
    WORLD.raced.append(race)
    before = WORLD.now
    for side in (a, b):
        side.log[-1].raced += 1.0
    seconds = max(6, rules.fewest_pairs) * (a.block + b.block)
    same = a.setting.techniques == b.setting.techniques
    WORLD.now += seconds * (WORLD.slow if same else 1.0)
    WORLD.now = min(WORLD.now, max(before, b.deadline))
    ratio = a.block / b.block
    unclear = WORLD.open & (set(b.setting.techniques) - set(a.setting.techniques))
    if unclear:
        estimate, verdict = Estimate(1.0, 0.5, 2.0, 6, 0.95), Verdict.INCONCLUSIVE
    else:
        estimate = Estimate(ratio, 0.98 * ratio, 1.02 * ratio, rules.fewest_pairs, 0.95)
        verdict = Verdict.FASTER if ratio > 1.02 else Verdict.SAME
    return RaceResult(estimate, verdict, "step" if rules.share_epoch else "epoch", True, a.block,
                      b.block, 1.0, 1.0, 0.0, 0.0, seconds, epoch_shared=rules.share_epoch,
                      seconds_needed=WORLD.unsettled if unclear else 0.0)  # fmt: skip


def fake_race_switched(
    side: FakeSide, also: Any, rules: Any, on_pair: Any, busy: bool = False, evidence: Any = None
) -> RaceResult:
    side.ready()
    WORLD.at_race(len(WORLD.raced))
    side.tried |= set(also)
    WORLD.raced.append(
        {"switched": sorted(also), "in": sorted(side.setting.techniques), "rules": rules,
         "evidence": evidence, "side": side}
    )  # fmt: skip
    WORLD.now = min(WORLD.now + 3.0, max(WORLD.now, side.deadline))
    ratio = math.prod(WORLD.gains.get(name, 1.0) for name in also)
    if WORLD.open & set(also):
        estimate, verdict = Estimate(1.0, 0.5, 2.0, 6, 0.95), Verdict.INCONCLUSIVE
    else:
        estimate = Estimate(ratio, 0.99 * ratio, 1.01 * ratio, 20, 0.95)
        verdict = Verdict.FASTER if ratio > 1.02 else Verdict.SAME
    needed = WORLD.unsettled if verdict is Verdict.INCONCLUSIVE else 0.0
    unit = "step" if rules.plain_steps else "epoch"
    return RaceResult(estimate, verdict, unit, True, side.block, side.block / ratio, 1.0, 1.0,
                      0.0, 0.0, 3.0, switched=True, seconds_needed=needed)  # fmt: skip


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Each technique has a process of its own; with `live` some are switched on."""
    monkeypatch.setattr(state.TuneState, "switchable", lambda *_: False)
    return made_up(monkeypatch)


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> World:
    return made_up(monkeypatch)


def made_up(monkeypatch: pytest.MonkeyPatch) -> World:
    WORLD.__dict__.update(World().__dict__)
    monkeypatch.setattr("os.getloadavg", lambda: (0.5, 0.5, 0.5))
    clock = SimpleNamespace(monotonic=lambda: WORLD.now)
    for module in (search, state, time_plan, races):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(races, "Side", FakeSide)
    monkeypatch.setattr(races, "race", fake_race)
    monkeypatch.setattr(races, "race_switched", fake_race_switched)
    monkeypatch.setattr(search, "look", fake_look)
    return WORLD


def fake_look(setting: Any, bounds: Any, meanwhile: Any) -> Any:
    WORLD.profiled = bounds
    WORLD.launched_at_profile = WORLD.launched
    meanwhile.tick()
    WORLD.now += START_UP
    phases = {"data": {"mean": 0.6}, "evaluation": {"mean": 0.3}}
    return SimpleNamespace(
        payload=decode(ProfilePayload, {
            "facts": FACTS | ({"contended_threads": True} if setting.passive_wait else {}),
            "program": __file__, "phases": phases, "step": {"mean": 1.0},
            "memory": {"peak": {"resident": WORLD.peak}},
        }),
        asleep=False,
    )  # fmt: skip


class Silent:
    def __init__(self) -> None:
        self.stages: list[str] = []

    def stage(self, text: str) -> None:
        self.stages.append(text)

    def note(self, text: str) -> None:
        self.stages.append(text)

    def candidates(self, *_: Any) -> None: ...

    def racing(self, *_: Any) -> None: ...

    def pair(self, *_: Any) -> None: ...

    def outcome(self, *_: Any) -> None: ...


def tuned(seconds: float, *names: str, base: Recipe | None = None) -> TuneResult:
    only = names or ("cached_dataset", "no_grad_eval")
    config = TuneConfig(
        Setting(("python", "train.py"), Mode.RACE), Wanted(set(Numerics), only), seconds,
        base=base or Recipe(),
    )  # fmt: skip
    return search.tune(config, detect(), Silent())


def kept(result: TuneResult) -> list[str]:
    return [row.technique for row in result.kept]


def row(result: TuneResult, name: str) -> Any:
    return next(row for row in result.outcomes if row.technique == name)


def test_with_time_enough_everything_is_raced(world: World) -> None:
    result = tuned(300.0)
    assert kept(result) == ["cached_dataset", "no_grad_eval"]
    assert result.upper_bounds
    assert result.confirmed
    assert result.needed == 0
    assert result.chosen == {"cached_dataset": {}, "no_grad_eval": {}}
    final = world.raced[-1]
    assert final["against"] == []
    assert world.launched > 4, "fresh processes"


@pytest.mark.parametrize(("seconds", "whole"), [(1.0, True), (9.0, True)])
def test_what_acts_once_an_epoch_is_raced_by_whole_epochs_where_they_fit(
    world: World, seconds: float, whole: bool
) -> None:
    world.epoch, world.pace_epoch = seconds, 0
    tuned(300.0, "no_grad_eval")
    race = next(race for race in world.raced if "no_grad_eval" in race["on"])
    assert race["rules"].whole_epochs is whole
    assert race["rules"].seconds >= (6 * 2 * seconds / 1.2 if whole else 0)
    world.raced.clear()
    tuned(300.0, "cached_dataset")
    assert not any(race["rules"].whole_epochs for race in world.raced)


def test_what_plain_steps_do_not_show_is_not_raced_by_them(world: World) -> None:
    name = "no_grad_eval"
    world.epoch, world.epoch_steps, world.pace_epoch = 50.0, 59, 0
    begin = world.now
    result = tuned(300.0, name)
    assert not any(name in race["on"] for race in world.raced)
    found = row(result, name)
    assert found.is_open
    assert NO_WHOLE_EPOCHS in found.reason
    assert name in result.settles
    assert result.needed > 600.0, "eight epochs of both"
    assert world.now - begin < 60.0
    world.raced.clear()
    assert kept(tuned(result.needed, name)) == [name]
    assert any(race["rules"].whole_epochs for race in world.raced)


@pytest.mark.parametrize(
    ("budget", "rule"), [(60.0, ""), (300.0, "share_epoch"), (1200.0, "whole_epochs")]
)
def test_workers_are_raced_by_whole_epochs_or_by_steps_with_their_share_of_one(
    world: World, budget: float, rule: str
) -> None:
    name, world.gains["loader_workers"] = "loader_workers", 1.5
    world.epoch, world.epoch_steps, world.pace_epoch = 50.0, 59, 0
    result = tuned(budget, name)
    races = [race["rules"] for race in world.raced if race["evidence"]]
    assert {race.share_epoch for race in races} == ({rule == "share_epoch"} if rule else set())
    assert {race.whole_epochs for race in races} == ({rule == "whole_epochs"} if rule else set())
    assert kept(result) == ([name] if rule else [])
    if rule:
        final = world.raced[-1]["rules"]
        assert getattr(final, rule), "the final race has to show it as well"
    else:
        assert NO_WHOLE_EPOCHS in row(result, name).reason
        assert 100.0 < result.needed < 300.0, "an epoch of both, and a race of steps"


def test_workers_do_not_take_the_time_of_others_for_whole_epochs(world: World) -> None:
    world.gains["loader_workers"] = 1.5
    world.epoch, world.epoch_steps, world.pace_epoch = 50.0, 59, 0
    tuned(1500.0, "loader_workers", "no_grad_eval")
    first = next(r["rules"] for r in world.raced if r["on"] == ["loader_workers"])
    assert first.share_epoch
    assert first.seconds < 300.0
    assert any(race["rules"].whole_epochs for race in world.raced), "what only they can show"


def test_what_changes_nothing_is_known_from_its_first_steps(world: World) -> None:
    world.inert = {"loader_workers"}
    result = tuned(300.0, "loader_workers")
    found = row(result, "loader_workers")
    assert (found.status, found.race) == (Status.NOT_APPLICABLE, None)
    assert "nothing to change" in found.reason
    assert not any("loader_workers" in race["on"] for race in world.raced)


def test_the_use_of_the_time_adds_up_and_names_what_was_never_raced(world: World) -> None:
    result = tuned(300.0)
    use = result.time_use
    assert use.profiling == START_UP
    assert use.profiling + use.starting + use.racing + use.other == pytest.approx(result.seconds)
    assert use.racing > use.starting >= START_UP
    assert len(use.processes) == world.launched
    assert all(0 <= p.launched <= p.ended <= result.seconds for p in use.processes)
    unraced = [process.techniques for process in use.processes if not process.raced]
    assert unraced == [("no_grad_eval",)], "launched ahead of a winner, on top of what it replaced"
    assert use.unraced == 1
    assert use.processes[0].techniques == ()


def test_the_profile_is_bounded_by_the_budget(world: World) -> None:
    begin = world.now
    tuned(60.0)
    assert begin < world.profiled.until < begin + 30.0
    assert world.profiled.deadline == begin + 60.0


def test_the_plain_script_starts_with_its_profile_where_memory_allows(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = replace(detect(), gpus=(), memory=1000)
    for available, launched in ((900, 1), (400, 0)):
        monkeypatch.setattr(search, "available_memory", lambda free=available: free)
        monkeypatch.setattr(f"{__name__}.detect", lambda: machine)
        world.launched = 0
        tuned(60.0)
        assert world.launched_at_profile == launched


def test_what_is_raced_last_starts_alone(world: World) -> None:
    """Nothing is launched ahead of a race that the budget has no time for."""
    world.start_up = 10.0
    tuned(60.0, "cached_dataset", "no_grad_eval", "loader_workers")
    raced = {name for race in world.raced for name in race["on"]}
    assert world.ahead <= raced


def test_the_levels_of_all_tests_add_up_to_no_more_than_one(world: World) -> None:
    world.open = {"loader_workers"}
    result = tuned(300.0, "no_grad_eval", "loader_workers")
    assert kept(result) == ["no_grad_eval"]
    tests = {id(r["evidence"]): r for r in world.raced if r["evidence"]}
    shares = {key: 1 / r["rules"].candidates for key, r in tests.items()}
    won = [key for key, r in tests.items() if r["on"] == ["no_grad_eval"]]
    assert sum(shares.values()) - sum(shares[key] for key in won) <= 1, "but for what was no error"
    assert min(shares.values()) > 0.1, "nor is a share lost with each race"
    tries = [r for r in world.raced if r["on"] == ["loader_workers", "no_grad_eval"]]
    assert len(tries) > 1
    assert len({id(r["evidence"]) for r in tries}) == 1, "each goes on where the last one ended"
    assert world.raced[-1]["rules"].candidates == 1, "the whole recipe has a level of its own"


@pytest.mark.parametrize("seconds", [45.0, 300.0])
def test_the_only_winner_has_one_ratio_that_of_the_final_race(world: World, seconds: float) -> None:
    result = tuned(seconds, "cached_dataset")
    found = row(result, "cached_dataset")
    assert result.final is not None
    assert found.estimate == result.final.estimate
    recipe = recipe_of(result, detect())
    assert recipe.measured is not None
    assert Path(recipe.measured.program).samefile(__file__)
    assert recipe.techniques["cached_dataset"].ratio == recipe.measured.ratio
    assert found.parity == result.final_parity
    assert found.reason == result.final_parity.reason if result.final_parity else False


def test_the_last_open_candidate_has_all_the_time_that_is_left(world: World) -> None:
    world.open = {"cached_dataset", "no_grad_eval"}
    tuned(300.0)
    early = next(race for race in world.raced if race["on"] == ["cached_dataset"])
    assert early["rules"].give_up
    world.raced.clear()
    tuned(300.0, "cached_dataset")
    alone = [race for race in world.raced if race["on"] == ["cached_dataset"]]
    assert not any(race["rules"].give_up for race in alone)
    assert alone[0]["rules"].seconds > 200


def test_a_row_that_no_time_suffices_for_does_not_end_the_race_of_another(world: World) -> None:
    world.epoch, world.open = 1e6, {"no_grad_eval"}
    result = tuned(200.0)
    assert row(result, "cached_dataset").reason.startswith(OUT_OF_TIME), "its epoch never ends"
    alone = [race for race in world.raced if race["on"] == ["no_grad_eval"]]
    assert not alone[-1]["rules"].give_up


def test_a_row_that_is_raced_again_has_the_time_it_was_said_to_need(world: World) -> None:
    world.open, world.unsettled = {"cached_dataset", "no_grad_eval"}, 90.0
    tuned(400.0)
    mine = [race["rules"].seconds for race in world.raced if race["on"] == ["cached_dataset"]]
    assert mine[0] < 90.0 <= mine[1]


def test_processes_that_will_be_needed_start_while_others_do(world: World) -> None:
    tuned(300.0)
    together = world.now
    assert world.launched == 8
    world.now, world.peak = 1000.0, 1 << 60
    tuned(300.0)
    assert world.now > together + START_UP / 2, "not where memory is short"


def test_a_short_budget_still_races_the_most_valuable_candidate(world: World) -> None:
    begin = world.now
    result = tuned(45.0)
    assert kept(result)[:1] == ["cached_dataset"]
    assert result.confirmed
    assert not result.upper_bounds
    assert world.now - begin < 1.1 * 45.0


def test_without_time_for_an_a_a_test_other_losses_are_compared_with_another_run(
    world: World,
) -> None:
    result = tuned(34.0)
    assert result.noise_floor is None
    assert kept(result) == ["cached_dataset"]
    world.losses["cached_dataset"] = [1.0, 0.7, 0.5, 0.4, 0.1, 0.0]
    begin = world.now
    result = tuned(34.0, "cached_dataset")
    assert row(result, "cached_dataset").status is Status.BROKE_PARITY
    assert result.deterministic
    assert world.now - begin < 34.0


def test_without_an_a_a_test_losses_that_may_differ_a_little_are_inconclusive(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FACTS, "model", True)
    world.losses["cpu_threads"] = [1.0, 0.7, 0.5, 0.4, 0.1, 0.0]
    world.gains["cpu_threads"] = 1.5
    result = tuned(34.0, "cpu_threads")
    assert result.noise_floor is None
    assert row(result, "cpu_threads").status is Status.INCONCLUSIVE
    assert "no time for an A/A test" in row(result, "cpu_threads").reason


LATE = [1.0, 0.7, 0.5, 0.4, 0.35, 0.1]
"""Other than LOSSES in the last step."""


@pytest.mark.parametrize(("again", "verdict"), [
    (LOSSES, Status.BROKE_PARITY), ([1.0, 0.7, 0.5, 0.4, 0.2, 0.2], Status.KEPT),
])  # fmt: skip
@pytest.mark.parametrize("launched", [True, False], ids=["launched", "once"])
def test_a_later_difference_counts_once_the_plain_script_has_run_as_far_again(
    world: World, again: list[float], verdict: Status, launched: bool
) -> None:
    world.nudged, world.losses = LOSSES[:4], {"cached_dataset": LATE}
    if launched:  # a race has launched the plain script twice
        world.launched_again, world.again = again, []
    else:
        world.again = again
    result = tuned(300.0, "cached_dataset")
    assert row(result, "cached_dataset").status is verdict
    assert result.deterministic is (again is LOSSES)
    assert result.repeated_steps == (6 if again is LOSSES else 0)


def test_without_time_to_run_the_plain_script_again_a_later_difference_is_inconclusive(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.nudged, world.losses = LOSSES[:4], {"cached_dataset": LATE}
    monkeypatch.setattr(search, "losses_of_another_run", lambda *_: ())
    found = row(tuned(300.0, "cached_dataset"), "cached_dataset")
    assert found.status is Status.INCONCLUSIVE
    assert "known to repeat itself in its first 4 steps only" in found.reason


def test_a_dataset_that_reading_changes_is_rejected_without_an_a_a_test(world: World) -> None:
    world.state = {"read"}
    world.losses["loader_workers"] = [1.0, 0.7, 0.5, 0.4, 0.1, 0.0]
    world.gains["loader_workers"] = 3.0
    result = tuned(34.0, "loader_workers")
    assert result.noise_floor is None
    found = row(result, "loader_workers")
    assert found.status is Status.BROKE_PARITY
    assert "reading a sample changes the dataset's `read`" in found.reason


def test_a_machine_that_slows_down_in_the_a_a_test_leaves_a_candidate_its_race(
    world: World,
) -> None:
    world.slow = 2.0
    result = tuned(70.0)
    assert result.noise_floor is not None
    assert kept(result)[:1] == ["cached_dataset"]


def test_too_short_a_budget_is_seen_at_once_and_the_profile_is_kept(world: World) -> None:
    begin = world.now
    result = tuned(12.0)
    assert world.now - begin <= 2 * START_UP, "no time is spent on what leads nowhere"
    assert not result.timed
    assert result.profile.facts
    assert {r.reason for r in result.open} == {OUT_OF_TIME}
    assert kept(tuned(result.needed)) == ["cached_dataset", "no_grad_eval"]


def test_time_that_is_left_goes_to_inconclusive_rows(world: World) -> None:
    world.open = {"no_grad_eval"}
    begin = world.now
    result = tuned(200.0, "no_grad_eval")
    tries = sum(race["on"] == ["no_grad_eval"] for race in world.raced)
    assert tries > 3
    assert 170.0 <= world.now - begin <= 220.0
    found = row(result, "no_grad_eval")
    assert found.status is Status.INCONCLUSIVE
    assert len([r for r in result.outcomes if r.technique == "no_grad_eval"]) == 1
    assert result.needed > 200.0


MINE = Recipe({"cached_dataset": Kept(ratio=3.0, parity="bitwise")}, Measured(ratio=3.0))


def test_on_top_of_a_recipe_nothing_of_it_is_raced_again_and_the_whole_is_confirmed(
    world: World,
) -> None:
    result = tuned(300.0, "no_grad_eval", base=MINE)
    on = {tuple(race["on"]) for race in world.raced if race["on"] != race["against"]}
    assert on == {("cached_dataset", "no_grad_eval")}
    assert kept(result) == ["no_grad_eval"]
    first, final = world.raced[1], world.raced[-1]
    assert first["against"] == ["cached_dataset"]
    assert (final["against"], final["live"]) == ([], (True, True))
    assert result.final is not None
    assert result.final.estimate.ratio == pytest.approx(3.6)
    assert row(result, "no_grad_eval").estimate.ratio == pytest.approx(1.2)
    recipe = recipe_of(result, detect())
    assert list(recipe.techniques) == ["cached_dataset", "no_grad_eval"]
    assert recipe.techniques["cached_dataset"] == MINE.techniques["cached_dataset"]
    assert any("cached_dataset" in note for note in result.notes)


def test_what_excludes_the_recipe_that_is_on_can_replace_it(world: World) -> None:
    world.gains |= {"cached_dataset": 1.1, "loader_workers": 2.0}
    slight = Recipe({"cached_dataset": Kept(ratio=1.1)}, Measured(ratio=1.1))
    result = tuned(400.0, "loader_workers", base=slight)
    assert kept(result) == ["loader_workers"]
    assert list(recipe_of(result, detect()).techniques) == ["loader_workers"]


def test_on_top_of_a_recipe_what_is_no_faster_leaves_it_as_it_is(world: World) -> None:
    world.gains["no_grad_eval"] = 1.0
    result = tuned(300.0, "no_grad_eval", base=MINE)
    assert kept(result) == []
    assert result.final is None


def test_what_excludes_the_kept_one_replaces_it_when_it_is_faster(world: World) -> None:
    world.gains |= {"cached_dataset": 1.1, "loader_workers": 2.0}
    result = tuned(400.0, "cached_dataset", "loader_workers")
    assert kept(result) == ["loader_workers"]
    assert "faster still" in row(result, "cached_dataset").reason
    assert list(result.chosen) == ["loader_workers"]


def test_once_the_bottleneck_is_gone_what_excludes_the_kept_one_is_not_raced(
    world: World,
) -> None:
    world.gains |= {"cached_dataset": 2.4}
    result = tuned(400.0, "cached_dataset", "loader_workers")
    assert kept(result) == ["cached_dataset"]
    assert "can give" in row(result, "loader_workers").reason


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (TrialFailedError("boom"), Status.CRASHED),
        (NotReachedError("no training step within 60 s"), Status.INCONCLUSIVE),
    ],
)
def test_a_candidate_that_fails_is_one_row(world: World, error: Exception, status: Status) -> None:
    world.fails["cached_dataset"] = error
    result = tuned(300.0)
    assert row(result, "cached_dataset").status is status
    assert kept(result) == ["no_grad_eval"]
    assert result.confirmed


@pytest.mark.parametrize("race", range(5))
def test_an_interrupt_at_any_race_keeps_what_was_measured(world: World, race: int) -> None:
    def interrupt(number: int) -> None:
        if number == race:
            raise KeyboardInterrupt

    world.at_race = interrupt
    result = tuned(300.0)
    assert result.interrupted
    assert result.final is None
    assert not result.confirmed
    assert list(result.chosen) == kept(result)
    cut_short = [row.technique for row in result.outcomes if row.reason == "interrupted"]
    assert cut_short == {2: ["cached_dataset"], 3: ["no_grad_eval"]}.get(race, [])
    assert {row.technique for row in result.outcomes} >= {"cached_dataset", "no_grad_eval"}
    if race < 4:
        assert {row.technique for row in result.open} == {"cached_dataset", "no_grad_eval"} - set(
            kept(result)
        )
        assert set(result.settles) == {row.technique for row in result.open}


def test_what_a_failure_left_out_has_a_row_and_can_be_settled(world: World) -> None:
    def fail(_: int) -> None:
        if any("cached_dataset" in race["on"] for race in world.raced):
            world.fails["plain"] = TrialFailedError("out of luck")
            raise TrialFailedError("out of luck")

    world.at_race = fail
    world.open = {"cached_dataset"}
    result = tuned(300.0)
    assert result.failed == "out of luck"
    assert row(result, "no_grad_eval").reason == ENDED
    assert set(result.settles) == {"cached_dataset", "no_grad_eval"}


@pytest.mark.parametrize("left", [100.0, 0.0])
def test_what_breaks_parity_in_the_final_race_alone_is_taken_out(world: World, left: float) -> None:
    begin = world.now

    def differ(number: int) -> None:
        if number == 4:  # the final race
            world.losses["no_grad_eval"] = [1.0, 0.7, 0.5, 0.4, 0.1, 0.0]
            world.now = max(world.now, begin + 300.0 - left)

    world.at_race = differ
    result = tuned(300.0)
    assert kept(result) == ["cached_dataset"]
    assert result.chosen == {"cached_dataset": {}}
    assert row(result, "no_grad_eval").status is Status.BROKE_PARITY
    assert row(result, "no_grad_eval").reason.startswith("in the final race")
    assert result.confirmed
    assert len(world.raced) == (6 if left else 5)
    assert (RACE_STANDS in result.notes) is not bool(left)


def test_the_race_of_what_won_on_top_of_what_is_taken_out_does_not_stand_for_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def differ(number: int) -> None:
        if number == 4:
            world.losses["cached_dataset"] = [1.0, 0.7, 0.5, 0.4, 0.1, 0.0]
            world.now += 1000.0

    world.at_race = differ
    monkeypatch.setattr(search, "widest_numerics", lambda kept: kept[0])
    result = tuned(300.0)
    assert kept(result) == ["no_grad_eval"]
    assert not result.confirmed
    assert result.failed


def test_what_is_left_of_a_recipe_has_a_process_of_its_own(
    live: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def differ(_: int) -> None:
        if live.raced and {"cached_dataset", "no_grad_eval"} == set(live.raced[-1].get("on", ())):
            live.losses["cached_dataset"] = [1.0, 0.7, 0.5, 0.4, 0.1, 0.0]

    def widest(kept: list[Outcome]) -> Outcome:
        return next(row for row in kept if row.technique == "cached_dataset")

    live.at_race = differ
    monkeypatch.setattr(search, "widest_numerics", widest)
    result = tuned(300.0)
    assert row(result, "cached_dataset").status is Status.BROKE_PARITY
    assert live.raced[-1].get("on") == ["no_grad_eval"], "not switched on in the plain script"
    assert result.confirmed


def test_of_what_was_kept_the_widest_numerics_go_first() -> None:
    names = ("cached_dataset", "mixed_precision", "no_grad_eval")
    rows = [Outcome(name, Status.KEPT, "") for name in names]
    assert search.widest_numerics(rows).technique == "mixed_precision"
    assert search.widest_numerics([rows[0], rows[2]]).technique == "no_grad_eval"


def test_a_final_race_that_fails_leaves_the_recipe_unconfirmed(world: World) -> None:
    def fail(_: int) -> None:
        if len(world.raced) == 4:
            raise TrialFailedError("out of luck")

    world.at_race = fail
    result = tuned(300.0)
    assert result.failed == "out of luck"
    assert kept(result)
    assert not result.confirmed


def test_a_plain_script_that_cannot_be_raced_leaves_the_profile(world: World) -> None:
    def fail(*_: Any) -> None:
        raise TrialFailedError("too short to time", "let it run longer")

    world.at_race = fail
    result = tuned(100.0)
    assert not result.timed
    assert result.profile
    assert result.failed == "too short to time: let it run longer"


def test_a_script_that_fails_after_few_steps_is_not_called_short(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    payload = ProfilePayload(PhaseTimes(0.004), {}, ended="exit", steps=3)
    monkeypatch.setattr(search, "look", lambda *_: Look(payload, 1))
    monkeypatch.setattr(search, "last_words", lambda _: "ValueError: bad label")
    words = "the program failed with exit code 1 after 3 steps: ValueError: bad label"
    assert tuned(300.0).failed == words


def test_a_script_that_is_too_short_to_race_is_seen_by_its_profile(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def brief(*_: Any) -> Any:
        payload = ProfilePayload(PhaseTimes(0.004), {}, ended="exit", steps=3)
        return SimpleNamespace(payload=payload, asleep=False, partial="")

    monkeypatch.setattr(search, "look", brief)
    result = tuned(300.0)
    assert result.failed.startswith("the program ends after 3 steps of 4 ms, too short to time")
    assert not world.raced
    assert not result.open


@pytest.mark.parametrize("seen", [True, False], ids=["by its profile", "by its first launch"])
def test_a_script_of_five_steps_is_refused_before_any_race(
    world: World, monkeypatch: pytest.MonkeyPatch, seen: bool
) -> None:
    def slow(*_: Any) -> Any:
        payload = ProfilePayload(PhaseTimes(2.5), {}, ended="exit" if seen else "steps", steps=5)
        return SimpleNamespace(payload=payload, asleep=False, partial="")

    monkeypatch.setattr(search, "look", slow)
    monkeypatch.setattr(FakeSide, "ends_after", 5)
    begin = world.now
    result = tuned(300.0)
    step = "2500 ms" if seen else "1000 ms"
    assert result.failed.startswith(f"the program ends after 5 steps of {step}, too short")
    assert result.failed.endswith("let it run longer: 10 steps or more")
    assert not world.raced
    assert world.now - begin <= 2 * START_UP
    monkeypatch.setattr(FakeSide, "ends_after", 10)
    assert seen or not tuned(300.0).failed


def test_time_of_a_profile_that_was_interrupted_is_time_of_profiling(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        world.now += 12.0
        raise KeyboardInterrupt

    monkeypatch.setattr(search, "look", interrupted)
    result = tuned(300.0)
    assert result.interrupted
    assert result.time_use.profiling == 12.0


@pytest.mark.parametrize(("broken", "said"), [(math.nan, True), (math.inf, True), (0.1, False)])
def test_a_loss_that_is_no_number_is_said_once(
    world: World, monkeypatch: pytest.MonkeyPatch, broken: float, said: bool
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "LOSSES", [*LOSSES, broken])
    notes = tuned(300.0).notes
    first = f"NaN or infinite in 1 of {len(LOSSES)} steps, first in step {len(LOSSES)}"
    assert sum(first in note for note in notes) == said


def test_a_plain_script_that_fails_is_no_result(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise TrialFailedError("no such file")

    monkeypatch.setattr(search, "look", fail)
    with pytest.raises(TrialFailedError, match="no such file"):
        tuned(300.0)


@pytest.mark.parametrize("budget", [25.0, 45.0, 60.0, 100.0])
@pytest.mark.parametrize("start_up", [1.0, 8.0, 15.0, 30.0])
def test_no_process_is_waited_for_when_the_budget_is_over(
    world: World, start_up: float, budget: float
) -> None:
    world.start_up, world.open = start_up, {"cached_dataset", "no_grad_eval"}
    begin = world.now
    result = tuned(budget)
    assert world.now - begin <= 1.1 * budget
    assert result.profile
    assert result.timed or {r.status for r in result.open} == {Status.NOT_RACED}


def test_of_two_races_of_an_open_row_the_one_that_knows_more_is_reported() -> None:
    known, vague = (
        Outcome("amp", Status.INCONCLUSIVE, race=RaceResult(
            Estimate(1.0, low, 1 / low, 9, 0.95), Verdict.INCONCLUSIVE, "step", True, 1, 1, 1, 1, 0,
            0, 9))
        for low in (0.8, 0.1)
    )  # fmt: skip
    other = Outcome("tf32", Status.INCONCLUSIVE)
    assert search.more_exact(vague, [other, known]) is known
    assert search.more_exact(known, [vague]) is known
    faster = replace(vague, status=Status.KEPT)
    assert search.more_exact(faster, [known]) is faster
    assert vague.race is not None
    longer = replace(vague, race=replace(vague.race, estimate=Estimate(1.0, 0.1, 10, 18, 0.95)))
    assert search.more_exact(longer, [known]) is longer, "it holds the pairs of the other, too"


def test_where_no_time_is_left_the_race_of_the_only_winner_stands_for_the_final_one(
    world: World,
) -> None:
    def slow_down(number: int) -> None:
        world.now += 200.0 if number == 2 else 0.0

    world.at_race = slow_down
    result = tuned(100.0, "cached_dataset")
    assert kept(result) == ["cached_dataset"]
    assert len(world.raced) == 3, "the A/A test, the upper bound, the candidate"
    assert result.confirmed
    assert "stands for it" in result.notes[-1]
    assert recipe_of(result, detect()).measured.note == result.notes[-1]
    result.notes.clear()
    assert recipe_of(result, detect()).measured.note == ""


def test_half_of_the_error_is_shared_equally_and_what_was_kept_gives_its_own_back() -> None:
    levels = Levels()
    shares = [levels.take(0.3, [0.3] * waiting) for waiting in (2, 1, 0)]
    assert shares == pytest.approx([1 / 4] * 3)
    assert levels.left == pytest.approx(1 / 4), "for a later best"
    levels.give_back(shares[1])
    assert [levels.take(0.0, [0.0]), levels.take(0.0, [])] == pytest.approx([1 / 6] * 2)


@pytest.mark.parametrize("expected", [(0.6, 0.2, 0.0), (0.0, 0.1, 0.9), (1.0, 0.0, 0.0)])
def test_what_can_be_expected_to_give_more_has_a_larger_share_and_none_has_too_little(
    expected: tuple[float, ...],
) -> None:
    levels = Levels()
    shares = [levels.take(gain, expected[i + 1 :]) for i, gain in enumerate(expected)]
    assert sum(shares) < 1.0
    assert levels.left == pytest.approx(1 - sum(shares))
    assert sorted(shares) == [share for _, share in sorted(zip(expected, shares, strict=True))]
    assert min(shares) >= 1 / 8 * (1 - 1e-9), "half of an equal share"


def test_what_promises_more_and_is_less_known_is_worth_more() -> None:
    def gain(ratio: float, spread: float) -> float:
        found = Estimate(ratio, ratio / spread, ratio * spread, 9, 0.95)
        return expected_gain(found)

    assert gain(1.1, 1.1) > gain(1.03, 1.1) > gain(0.95, 1.1)
    assert gain(1.0, 1.3) > gain(1.0, 1.05)
    assert gain(0.9, 1.02) < 0.001
    assert gain(1.1, 1.01) == pytest.approx(math.log(1.1), rel=0.05)
    assert gain(1.1, math.inf) == pytest.approx(0.04, abs=0.002), "nothing is known"
    wide = Estimate(1.7, 0.9, 3.2, 30, 0.95)
    assert expected_gain(wide, 0.5) > 2 * expected_gain(wide), "the profile saw more to gain"


def test_of_two_open_rows_the_one_that_needs_less_time_is_raced_first(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.open = {"cached_dataset", "no_grad_eval"}
    plain_race = races.race

    def race(a: Any, b: Any, *rest: Any, **more: Any) -> RaceResult:
        found = plain_race(a, b, *rest, **more)
        long = "cached_dataset" in b.setting.techniques
        return replace(found, seconds_needed=math.inf if long else 30.0)

    monkeypatch.setattr(races, "race", race)
    tuned(250.0)
    names = [race["on"] for race in world.raced if race["evidence"]]
    assert names[:3] == [["cached_dataset"], ["no_grad_eval"], ["no_grad_eval"]]


def final_with(fresh: Estimate | None, verdict: Verdict) -> RaceResult:
    whole = Estimate(1.4, 1.1, 1.8, 30, 0.99)
    found = RaceResult(whole, verdict, "step", True, 1.4, 1.0, 1, 1, 0, 0, 9, fresh=fresh)
    return search.confirmed(found, 0.02)


def test_a_final_race_that_goes_on_from_the_winners_own_needs_a_gain_of_its_own_pairs() -> None:
    clear, vague, none = (
        Estimate(ratio, ratio - half, ratio + half, 8, 0.95)
        for ratio, half in ((1.3, 0.2), (1.3, 0.5), (0.97, 0.1))
    )
    for verdict in (Verdict.FASTER, Verdict.INCONCLUSIVE):
        found = final_with(clear, verdict)
        assert (found.verdict, found.estimate) == (Verdict.FASTER, clear), "they show it alone"
        found = final_with(none, verdict)
        assert (found.verdict, found.estimate) == (Verdict.INCONCLUSIVE, none), "they refute it"
    both = final_with(vague, Verdict.FASTER)
    assert (both.verdict, both.estimate.pairs) == (Verdict.FASTER, 30), "together they do"
    assert both.a_step / both.b_step == pytest.approx(both.estimate.ratio)
    open_ = final_with(vague, Verdict.INCONCLUSIVE)
    assert (open_.verdict, open_.estimate) == (Verdict.INCONCLUSIVE, vague)
    assert final_with(None, Verdict.FASTER).verdict is Verdict.FASTER


def test_only_the_final_race_of_one_technique_goes_on_from_its_own_race(world: World) -> None:
    tuned(300.0, "cached_dataset")
    first, final = (race for race in world.raced if race["evidence"])
    assert final is world.raced[-1]
    assert final["evidence"] is first["evidence"]
    world.raced.clear()
    assert len(kept(tuned(300.0))) == 2
    assert world.raced[-1]["evidence"] is None


def test_a_gain_that_lasts_comes_before_one_that_depends_on_the_load(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    monkeypatch.setattr(races.BusyWatch, "now", lambda _: True)
    monkeypatch.setitem(FACTS, "threads", 2)
    monkeypatch.setitem(FACTS, "model", True)
    tuned(600.0, "sleeping_threads", "cached_dataset")
    first = next(race["on"] for race in world.raced if race["evidence"])
    assert first == ["cached_dataset"]


def test_what_no_recipe_keeps_is_raced_again_behind_what_one_may_keep(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    monkeypatch.setattr(races.BusyWatch, "now", lambda _: True)
    monkeypatch.setitem(FACTS, "threads", 2)
    monkeypatch.setitem(FACTS, "model", True)
    world.open = {"sleeping_threads", "no_grad_eval"}
    result = tuned(400.0, "sleeping_threads", "no_grad_eval")
    names = [race["on"][0] for race in world.raced if race["evidence"]]
    assert set(names[:2]) == {"no_grad_eval", "sleeping_threads"}
    assert names[2:] == ["no_grad_eval"] * len(names[2:])
    assert len(names) > 4
    assert not result.kept


def test_what_was_raced_again_in_vain_comes_last_and_is_not_given_up_then(world: World) -> None:
    world.open = {"cached_dataset", "no_grad_eval"}
    tuned(400.0)
    again = [race for race in world.raced if race["evidence"]][2:]
    names = [race["on"][0] for race in again]
    assert set(names[:2]) == {"cached_dataset", "no_grad_eval"}, "no interval got narrower"
    assert [race["rules"].give_up for race in again[:3]] == [True, True, False]


def test_the_final_race_goes_on_for_as_long_as_there_is_time(world: World) -> None:
    tuned(300.0)
    rules = world.raced[-1]["rules"]
    assert not rules.until_gain, "nothing else could use the time that a hopeless race would leave"
    assert rules.precision
    assert rules.seconds > 30.0


def test_a_compilation_that_takes_too_long_leaves_time_to_others_and_is_not_tried_twice(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.open = {"no_grad_eval"}
    monkeypatch.setitem(FACTS, "model", True)
    monkeypatch.setitem(FACTS, "compiler", True)
    result = tuned(300.0, "no_grad_eval", "fused_pointwise")
    (allowed,) = world.compilations
    assert 100.0 < allowed < 150.0
    assert "longer to compile" in row(result, "fused_pointwise").reason
    tries = [race for race in world.raced if race["on"] == ["no_grad_eval"]]
    assert len(tries) > 2


def test_only_what_compiles_is_said_to_have_compiled_for_long() -> None:
    threads, compiled = (Candidate(registered(n), {}) for n in ("cpu_threads", "fused_pointwise"))
    assert "longer to compile" in search.too_late(compiled, shared=True)
    assert "longer to start" in search.too_late(threads, shared=True)
    assert search.too_late(threads, shared=False) == "the time was over before it ran"


def test_the_next_budget_is_what_its_rows_need(world: World) -> None:
    world.open = {"cached_dataset", "no_grad_eval"}
    short, long = tuned(100.0), tuned(400.0)
    assert set(short.settles) == set(long.settles) == {"cached_dataset", "no_grad_eval"}
    assert short.needed < long.needed, "what was raced in vain is raced again"
    world.open = {"no_grad_eval"}
    alone = tuned(100.0, "no_grad_eval")
    assert alone.settles == ["no_grad_eval"]


def test_what_only_a_calm_machine_settles_is_in_no_budget(world: World) -> None:
    world.open, world.unsettled = {"no_grad_eval"}, 1459.0
    result = tuned(100.0, "no_grad_eval")
    assert row(result, "no_grad_eval").out_of_reach
    assert (result.needed, result.settles) == (0.0, [])


def first_raced(world: World) -> list[str]:
    raced = [race["on"] for race in world.raced if race["on"] != race["against"]]
    return next(on for on in raced if "data_free" not in on)


def test_the_largest_gain_has_the_epoch_that_it_fills_before_smaller_ones_take_the_time(
    world: World,
) -> None:
    world.epoch = 150.0
    result = tuned(400.0)
    assert first_raced(world) == ["cached_dataset"]
    assert kept(result)[:1] == ["cached_dataset"]


def test_what_fills_a_cache_for_longer_than_is_left_says_so_and_leaves_others_the_time(
    world: World,
) -> None:
    world.epoch = 450.0
    result = tuned(400.0)
    assert first_raced(world) == ["no_grad_eval"]
    found = row(result, "cached_dataset")
    assert found.is_open
    assert "with the epoch that fills it, it needs about 4" in found.reason
    assert "cached_dataset" in result.settles
    assert result.needed > 450.0
    world.epoch = 1e7
    assert "it needs more than 30 min, and" in row(tuned(400.0), "cached_dataset").reason


def test_what_joins_a_technique_that_failed_is_not_raced(world: World) -> None:
    names = ("loader_workers", "prefetch_factor")
    tuned(600.0, *names)
    both = ["loader_workers", "prefetch_factor"]
    assert both in [race["on"] for race in world.raced]
    world.raced.clear()
    world.losses["loader_workers"] = [9.0] * len(LOSSES)
    result = tuned(600.0, *names)
    assert row(result, "loader_workers").status is Status.BROKE_PARITY
    found = row(result, "prefetch_factor")
    assert (found.status, found.is_open) == (Status.NOT_RACED, False)
    assert found.reason == "it is raced together with loader_workers, which broke parity"
    assert both not in [race["on"] for race in world.raced]


def test_what_a_start_with_a_filled_cache_took_does_not_count_as_a_start(world: World) -> None:
    config = TuneConfig(Setting(("python", "t.py"), Mode.RACE), Wanted(set(Numerics)), 300.0)
    plan = time_plan.TimePlan(300.0)
    plan.measured(4.0, 1.0)
    found = state.TuneState(config, detect(), Silent(), plan, None, TuneResult(()))  # type: ignore[arg-type]
    side = FakeSide(config.setting, whole_epoch=True)
    world.start_up = 64.0
    found.timed_start(side)  # type: ignore[arg-type]
    assert (plan.start_up, plan.filling(fills=True)) == (4.0, 60.0)


def test_where_starts_are_slow_no_time_goes_to_upper_bounds(world: World) -> None:
    world.start_up = 45.0
    result = tuned(200.0)
    assert not result.upper_bounds
    assert row(result, "cached_dataset").race is not None


def test_an_upper_bound_that_took_no_hold_bounds_nothing(world: World) -> None:
    world.inert = {"data_free"}
    result = tuned(300.0)
    (bound,) = (b for b in result.upper_bounds if b.name == "data_free")
    assert bound.estimate is None
    assert "found nothing to change" in bound.reason
    assert "cached_dataset" in kept(result)


@pytest.mark.parametrize(("pairs", "most"), [(5, math.inf), (6, 1.02)])
def test_an_upper_bound_of_few_pairs_leaves_every_ratio_possible(pairs: int, most: float) -> None:
    assert UpperBound("data_free", "", Estimate(1.01, 0.9, 1.02, pairs, 0.95)).most == most
    assert UpperBound("data_free", "", Estimate(0.9, 0.8, 0.95, 6, 0.95)).most == 1.0


def test_a_noisy_machine_is_told_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TuneResult, "noisy", property(lambda found: found.noise_floor is not None))
    watcher = Silent()
    config = TuneConfig(
        Setting(("python", "train.py"), Mode.RACE), Wanted(set(Numerics), ("no_grad_eval",)), 200.0
    )
    search.tune(config, detect(), watcher)
    at = next(i for i, text in enumerate(watcher.stages) if "--wait" in text)
    assert watcher.stages[at - 1].startswith("A/A test")


def test_on_a_busy_machine_sleep_is_raced_against_the_script_as_it_is(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    monkeypatch.setattr(races.BusyWatch, "now", lambda _: True)
    monkeypatch.setitem(FACTS, "threads", 2)
    monkeypatch.setitem(FACTS, "model", True)
    assert row(tuned(600.0, "sleeping_threads"), "sleeping_threads").race is not None
    world.raced.clear()
    tuned(600.0, "sleeping_threads", "no_grad_eval")
    (mine,) = [race["rules"] for race in world.raced if race["on"] == ["sleeping_threads"]]
    assert mine.seconds <= 0.2 * 600.0, "others need the time"
    assert mine.seconds < mine.seconds_if_promising <= 0.3 * 600.0
    assert not mine.give_up, "its pairs differ much at first"
    asleep = {tuple(race["on"]): race["asleep"] for race in world.raced}
    assert asleep.pop(("sleeping_threads",)) == (False, False)
    assert set(asleep.values()) == {(True, True)}
    live = next(race["live"] for race in world.raced if race["on"] == ["no_grad_eval"])
    assert live[0], "nor need the best so far be launched again for it"
    monkeypatch.setattr(races.BusyWatch, "now", lambda _: False)
    calm = row(tuned(600.0, "sleeping_threads"), "sleeping_threads")
    assert calm.status is Status.NOT_APPLICABLE


def switched(world: World) -> list[list[str]]:
    return [race["switched"] for race in world.raced if "switched" in race]


def test_what_can_be_switched_on_is_raced_in_the_process_of_the_a_a_test(live: World) -> None:
    result = tuned(300.0, "no_grad_eval")
    assert kept(result) == ["no_grad_eval"]
    first = next(race for race in live.raced if "switched" in race)
    assert first["in"] == []
    assert first["side"].setting.options.get("perturb"), "whose losses nobody needs"
    assert first["side"].launches == 1, "nothing was launched for it"
    kept_row = row(result, "no_grad_eval")
    assert kept_row.race.switched
    assert kept_row.parity.kept, "the winner was launched, to compare its losses"


def test_only_a_winner_of_a_live_process_is_launched(live: World) -> None:
    live.gains["no_grad_eval"] = 1.0
    result = tuned(300.0, "no_grad_eval")
    assert row(result, "no_grad_eval").status is Status.SAME
    assert switched(live) == [["no_grad_eval"]]
    assert "no_grad_eval" not in live.ahead, "it had no process of its own"


def test_on_top_of_a_kept_one_the_best_so_far_is_switched(live: World) -> None:
    result = tuned(300.0)
    assert set(kept(result)) == {"cached_dataset", "no_grad_eval"}
    raced = next(race for race in live.raced if race.get("switched") == ["no_grad_eval"])
    assert raced["in"] == ["cached_dataset"]
    assert result.final is not None
    assert not result.final.switched, "the whole recipe has to be there from the first step on"


def test_a_recipe_that_can_be_switched_on_as_a_whole_has_its_final_race_so(live: World) -> None:
    result = tuned(300.0, "no_grad_eval")
    assert result.final is not None
    assert result.final.switched
    assert switched(live)[-1] == ["no_grad_eval"]
    assert live.raced[-1]["evidence"] is live.raced[1]["evidence"], "it goes on from its own race"
    assert result.confirmed


def test_a_winner_whose_losses_differ_from_the_first_step_on_broke_parity(live: World) -> None:
    live.losses["no_grad_eval"] = [2.0 * loss for loss in LOSSES]
    result = tuned(300.0, "no_grad_eval")
    assert row(result, "no_grad_eval").status is Status.BROKE_PARITY
    assert not result.kept


def test_what_takes_no_hold_of_a_live_process_is_launched(live: World) -> None:
    live.inert.add("no_grad_eval")
    result = tuned(300.0, "no_grad_eval")
    assert switched(live) == [["no_grad_eval"]]
    assert "no_grad_eval" in live.ahead, "it has a process of its own after all"
    assert not result.kept


def test_an_interrupt_of_a_switched_race_leaves_its_row(live: World) -> None:
    def interrupt(number: int) -> None:
        if number == 1:
            raise KeyboardInterrupt

    live.at_race = interrupt
    result = tuned(300.0, "no_grad_eval")
    assert result.interrupted
    assert row(result, "no_grad_eval").status is Status.INCONCLUSIVE
    assert row(result, "no_grad_eval").reason == "interrupted"


def test_without_memory_for_one_more_the_plain_script_itself_is_switched(
    live: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "available_memory", lambda: 0)
    tuned(300.0, "no_grad_eval")
    first = next(race for race in live.raced if "switched" in race)
    assert first["side"].setting.options.get("perturb") is None


def test_a_gain_that_a_restart_refutes_is_not_kept(
    live: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slower(*given: Any, **options: Any) -> RaceResult:
        found = fake_race(*given, **options)
        return replace(found, verdict=Verdict.SLOWER)

    monkeypatch.setattr(races, "race", slower)
    result = tuned(300.0, "no_grad_eval")
    assert row(result, "no_grad_eval").status is Status.INCONCLUSIVE
    assert row(result, "no_grad_eval").reason == search.NOT_AFTER_RESTART


def test_a_gain_that_depends_on_the_load_is_not_launched(
    live: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(races, "LOADED_CORES", -1.0)
    monkeypatch.setitem(FACTS, "model", True)
    live.gains["cpu_threads"] = 1.5
    result = tuned(300.0, "cpu_threads")
    assert {row.status for row in result.raced} == {Status.LOAD_DEPENDENT}
    assert "cpu_threads" not in live.ahead


@pytest.mark.parametrize("seconds", [20.0, 30.0, 60.0])
def test_a_gain_in_a_live_process_leaves_time_to_check_the_training(
    live: World, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """A race that takes all the time it is given, as one of a small gain does."""

    def to_its_end(side: FakeSide, also: Any, rules: Any, *_: Any, **more: Any) -> RaceResult:
        found = fake_race_switched(side, also, rules, None, **more)
        live.now += max(rules.seconds, rules.seconds_if_promising) - 3.0
        return found

    monkeypatch.setattr(races, "race_switched", to_its_end)
    result = tuned(seconds, "no_grad_eval")
    assert kept(result) == ["no_grad_eval"], result.outcomes
