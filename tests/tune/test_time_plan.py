"""The plan promises no time that it does not have, and frees what is not needed."""

from types import SimpleNamespace

import pytest

from hotlap.tune import time_plan
from hotlap.tune.time_plan import LONGEST_RACE_SECONDS, TimePlan


class Clock:
    now = 50.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr("os.getloadavg", lambda: (0.5, 0.5, 0.5))
    monkeypatch.setattr(time_plan, "time", SimpleNamespace(monotonic=found.monotonic))
    return found


def plan(budget: float, start_up: float, block: float) -> TimePlan:
    found = TimePlan(budget)
    found.measured(start_up, block)
    return found


@pytest.mark.usefixtures("clock")
def test_a_long_budget_is_shared_out() -> None:
    long = plan(600.0, 5.0, 0.3)
    assert long.allows_race()
    assert long.race_seconds(10) <= LONGEST_RACE_SECONDS + 20
    assert 10 * (long.race_seconds(10) + 5.0) + long.reserve <= 600.0
    assert long.allows_upper_bound(10)
    assert long.noise_floor == (8.0, 6)


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(("start_up", "block"), [(5.0, 0.3), (12.0, 1.0), (20.0, 1.2)])
def test_two_minutes_suffice_for_a_race_of_a_script_that_starts_slowly(
    start_up: float, block: float
) -> None:
    short = plan(120.0 - 2 * start_up, start_up, block)  # profiled and started by then
    assert short.allows_race()


@pytest.mark.usefixtures("clock")
def test_the_reserve_is_for_pairs_alone_until_something_is_kept() -> None:
    found = plan(120.0, 10.0, 0.5)
    assert found.reserve == pytest.approx(6.0)
    found.kept(0.25, 0.75)
    assert found.reserve == pytest.approx(1.5 * 10.0 + 1.5 * 6 * 0.75)


@pytest.mark.usefixtures("clock")
def test_the_final_race_of_a_great_gain_is_planned_with_the_long_blocks_of_the_plain_script() -> (
    None
):
    found = plan(120.0, 5.0, 0.3)
    found.kept(0.3, final_pair=2.1)  # 0.3 s of the recipe, 1.8 s of the script
    assert found.shortest_final == pytest.approx(6 * 2.1)
    assert found.best_block == 0.3


def test_time_that_was_spent_is_gone(clock: Clock) -> None:
    found = plan(100.0, 5.0, 0.3)
    clock.now += 84.0
    assert found.left == pytest.approx(16.0)
    assert not found.allows_noise_floor()
    assert found.allows_race()
    clock.now += 15.0
    assert not found.allows_race()


@pytest.mark.usefixtures("clock")
def test_a_candidate_that_compiles_needs_more_time_until_one_has_been_compiled() -> None:
    found = plan(60.0, 10.0, 0.5)
    found.kept(0.5, 1.0)
    assert found.race_cost(compiles=True) == found.race_cost() + 30.0
    found.compile_seconds = 4.0
    assert found.race_cost(compiles=True) == found.race_cost() + 4.0


def test_the_final_race_is_of_fresh_processes_where_they_fit(clock: Clock) -> None:
    found = plan(100.0, 10.0, 0.5)
    assert found.final_fits_fresh
    clock.now += 85.0
    assert not found.final_fits_fresh


def test_a_budget_to_advise_is_rounded_up() -> None:
    assert [TimePlan.rounded(seconds) for seconds in (14.0, 15.0, 16.0)] == [15.0, 15.0, 30.0]


@pytest.mark.usefixtures("clock")
def test_an_epoch_that_fills_a_cache_is_planned_and_slow_starts_leave_out_orienting() -> None:
    found = plan(240.0, 30.0, 0.3)
    found.epoch_fill = 100.0
    assert found.race_cost(fills=True) == found.race_cost() + 100.0
    found.stretch = 2.0
    assert found.filling(fills=True) == 200.0, "on a busy machine"
    found.stretch = 1.0
    assert found.allows_race()
    assert found.allows_upper_bound(3)
    found.begin -= 60.0
    assert not found.allows_upper_bound(3)


@pytest.mark.usefixtures("clock")
def test_with_a_cache_kept_every_launch_fills_it_again() -> None:
    found = plan(240.0, 10.0, 0.3)
    found.epoch_fill = 100.0
    found.kept(0.3, 0.6, fills=True)
    assert found.race_cost() > 100.0
    assert found.final_fits_fresh
    found.begin -= 150.0
    assert not found.final_fits_fresh
    assert found.reserve < 100.0, "the processes that raced can go on"


@pytest.mark.usefixtures("clock")
def test_nothing_is_launched_ahead_of_a_race_that_an_epoch_leaves_no_time_for() -> None:
    found = plan(150.0, 10.0, 0.3)
    found.epoch_fill = 100.0
    assert found.allows_another_race()
    assert not found.allows_another_race(after_filling=True, fills=True)


@pytest.mark.usefixtures("clock")
def test_pairs_that_take_longer_than_their_blocks_are_planned_for() -> None:
    found = plan(100.0, 10.0, 0.5)
    before = found.shortest_race
    found.paired(3.0, 1.0)
    assert found.shortest_race == pytest.approx(2 * before)
    found.paired(0.5, 1.0)
    assert found.shortest_race == pytest.approx(1.5 * before), "never less than the blocks"


@pytest.mark.usefixtures("clock")
def test_fresh_pairs_are_run_where_the_final_race_leaves_time_for_them() -> None:
    assert plan(300.0, 10.0, 0.5).fresh_pairs == 6
    assert plan(40.0, 10.0, 0.5).fresh_pairs == 0


def test_no_race_is_given_more_time_than_there_is(clock: Clock) -> None:
    found = plan(100.0, 10.0, 2.0)
    clock.now += 95.0
    for seconds in (found.race_seconds(1), found.promising_seconds):
        assert seconds <= found.left + 5.0 < found.shortest_race


@pytest.mark.usefixtures("clock")
def test_a_busy_machine_is_planned_for_before_the_first_pair(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    calm = plan(60.0, 20.0, 0.3)
    monkeypatch.setattr("os.getloadavg", lambda: (14.0, 9.0, 5.0))
    busy = plan(60.0, 20.0, 0.3)
    assert busy.stretch == 3.0
    assert calm.allows_noise_floor()
    assert not busy.allows_noise_floor(), "the candidate comes first"
    assert busy.allows_race()


@pytest.mark.usefixtures("clock")
def test_a_load_of_any_height_leaves_a_tune_its_first_race(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (40.0, 40.0, 40.0))
    found = plan(107.0, 20.0, 3.0)
    found.paired(60.0, 6.0)
    assert found.allows_race()


@pytest.mark.usefixtures("clock")
def test_what_acts_in_every_step_needs_no_whole_epochs() -> None:
    """Epochs of 5 s: half a minute holds no race of them, but one of plain steps."""
    found = plan(30.0, 10.0, 5.0)
    assert not found.allows_race()
    assert found.allows_race(plain_steps=True)
    assert found.race_cost(plain_steps=True) == pytest.approx(10.0 + 12 * 0.3)
    assert found.race_seconds(4, plain_steps=True) < found.race_seconds(4)
    found.step_block = 7.0
    assert found.race_cost(plain_steps=True) == found.race_cost(), "never longer than an epoch"


@pytest.mark.usefixtures("clock")
def test_an_a_a_test_that_has_yet_to_start_leaves_time_for_a_candidate_too() -> None:
    found = TimePlan(30.0)
    found.measured(20.0, 0.3, settling=3.0)
    assert found.allows_noise_floor()
    assert not found.allows_noise_floor(launched=False)


@pytest.mark.usefixtures("clock")
def test_a_small_gain_keeps_time_for_the_launches_that_confirm_it() -> None:
    found = plan(180.0, 5.0, 0.3)
    found.kept(0.3, 0.6, final_launches=1)
    one = found.reserve
    found.kept(0.3, 0.6, final_launches=3)
    assert found.reserve == pytest.approx(3 * 1.5 * 5.0 + 3 * 4 * 0.6)
    assert found.reserve > 2 * one


@pytest.mark.usefixtures("clock")
def test_what_took_many_pairs_to_win_keeps_time_for_as_many_to_confirm_it() -> None:
    found = plan(180.0, 5.0, 0.3)
    reserves = []
    for pairs in (0, 30, 300):
        found.kept(0.3, 0.6, final_pairs=pairs)
        reserves.append(found.reserve - 1.5 * 5.0)
    assert reserves[1:] == pytest.approx([30 * 0.6, 0.2 * 180.0])
    assert reserves[0] < reserves[1]


@pytest.mark.usefixtures("clock")
def test_on_top_of_what_compiles_everything_compiles() -> None:
    found = plan(180.0, 5.0, 0.3)
    found.compile_seconds = 40.0
    before = found.race_cost()
    assert found.race_cost(compiles=True) == pytest.approx(before + 40.0)
    found.kept(0.3, 0.6, compiles=True)
    assert found.race_cost() == found.race_cost(compiles=True) == pytest.approx(before + 40.0)
    assert found.final_cost >= 1.5 * 5.0 + 40.0
