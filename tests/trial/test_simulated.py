"""What races of sides that pretend to run say: a small part of `python -m benchmarks.simulated`."""

import itertools
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks import simulated_tune
from benchmarks.simulated import LOADS, continued, settles, simulated

from hotlap.trial.stopping import StopReason

RACES = 25
CALLED = {"faster", "slower"}


@pytest.mark.parametrize("name", LOADS)
def test_a_script_against_itself_is_not_called(name: str) -> None:
    found = [simulated(LOADS[name], 0.03, 1.0, seed, seconds=30) for seed in range(RACES)]
    assert sum(race.verdict in CALLED for race in found) <= 3
    assert sum(race.estimate.low <= 1 <= race.estimate.high for race in found) >= RACES - 3


@pytest.mark.parametrize("name", LOADS)
def test_a_planted_difference_is_found_and_not_overstated(name: str) -> None:
    found = [simulated(LOADS[name], 0.02, 1.3, seed, seconds=60) for seed in range(RACES)]
    called = [race for race in found if race.verdict == "faster"]
    assert len(called) >= 0.85 * RACES
    assert sum(race.estimate.ratio for race in called) / len(called) == pytest.approx(1.3, rel=0.04)
    assert all(race.fresh is not None and race.fresh.pairs >= 6 for race in called)


def test_a_race_that_is_about_to_be_decided_takes_a_quarter_longer() -> None:
    load, rules = LOADS["loaded"], {"seconds": 20, "launches": 1}
    found = [simulated(load, 0.02, 1.15, seed, **rules) for seed in range(RACES)]
    racing = [one.seconds - 2 * load.launch for one in found]  # both start
    longer = [one for one, seconds in zip(found, racing, strict=True) if seconds > 23]
    assert max(racing) < 1.25 * 20 + 3, "and the pair that was begun"
    assert any(one.stopped is StopReason.DECIDED for one in longer)
    assert len(longer) < len(found), "others are not near"


@pytest.mark.slow
def test_the_time_that_an_open_race_says_it_needs_settles_most() -> None:
    kinds = itertools.product(LOADS.values(), (1.0, 1.1))
    told = [
        settles(load, 0.03, ratio, seed, 10.0)
        for load, ratio in kinds
        for seed in range(RACES // 3)
    ]
    assert told.count(True) >= 1.5 * told.count(False) > 0, "0.6 of them, were the ratio exact"


def test_on_a_calm_machine_equal_sides_are_the_same() -> None:
    found = [simulated(LOADS["calm"], 0.01, 1.0, seed, seconds=60) for seed in range(RACES)]
    assert sum(race.verdict == "same" for race in found) >= 0.6 * RACES


@pytest.mark.parametrize("name", ["calm", "loaded, threads"])
def test_races_that_go_on_add_up_and_do_not_call_equal_sides(name: str) -> None:
    rules: dict[str, float] = {"seconds": 8.0, "candidates": 5, "launches": 1}
    chains = [continued(LOADS[name], 0.03, 1.0, seed, 5, **rules) for seed in range(RACES)]
    assert sum(any(race.verdict in CALLED for race in chain) for chain in chains) <= 1
    for chain in chains:
        assert [race.launches for race in chain] == [1, 2, 3, 4, 5], "fresh processes in each"
        pairs = [race.estimate.pairs for race in chain]
        assert pairs == sorted(pairs)
        assert all(race.restarts == 0 for race in chain)


def test_a_small_gain_is_found_by_races_that_go_on_and_not_by_one() -> None:
    rules: dict[str, float] = {"seconds": 8.0, "candidates": 5, "launches": 1}
    chains = [continued(LOADS["calm"], 0.03, 1.12, seed, 5, **rules) for seed in range(RACES)]
    assert sum(chain[0].verdict == "faster" for chain in chains) < 0.4 * RACES
    assert sum(any(r.verdict == "faster" for r in chain) for chain in chains) > 0.8 * RACES


def test_a_tune_finds_what_is_there_in_three_minutes_and_nothing_else() -> None:
    tunes = 12
    planted = {"mixed_precision": 1.2, "keep_heap": 1.15}
    found = [simulated_tune.tuned("calm", planted, 180.0, seed) for seed in range(tunes)]
    figures = simulated_tune.figures(found, planted)
    assert figures["wrongly"] == 0
    assert figures["share of the gain"] > 0.75, "0.4 where rows are raced anew each time"
    assert figures["without a race"] < 4
    assert all(one.seconds < 1.02 * 180.0 for one in found)
    none = [simulated_tune.tuned("calm", {}, 180.0, seed) for seed in range(tunes)]
    assert not any(one.kept for one in none)
