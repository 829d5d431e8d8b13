"""The budget never promises time it does not have."""

import pytest

from hotlap.tune.budget import LONGEST_RACE, Budget


def test_a_long_budget_shares_out_and_keeps_a_reserve() -> None:
    budget = Budget(600.0)
    assert budget.allows_another()
    assert budget.for_race(10) <= LONGEST_RACE
    assert budget.reserve >= 120.0
    assert budget.for_race(10) * 10 <= 600.0


def test_a_short_budget_allows_nothing_but_still_a_race_that_can_show_something() -> None:
    budget = Budget(10.0)
    assert not budget.allows_another()
    assert budget.for_race(3) == budget.shortest
    assert budget.for_final() >= 2 * budget.shortest


@pytest.mark.parametrize("block", [0.3, 3.0])
def test_slow_pairs_make_for_fewer_candidates(block: float) -> None:
    budget = Budget(120.0)
    budget.settled(5.0, block)
    assert budget.shortest == pytest.approx(14 * block)
    assert budget.allows_another() is (block < 3.0)


def test_what_was_spent_before_is_gone() -> None:
    assert Budget(100.0, spent=40.0).left == pytest.approx(60.0, abs=0.1)


def test_where_time_is_tight_races_are_short_and_one_is_promised() -> None:
    wide, tight = Budget(600.0), Budget(60.0)
    for budget in (wide, tight):
        budget.settled(4.0, 1.0)
        assert budget.suffices(0.6)
    assert tight.tight
    assert not wide.tight
    assert tight.shortest == pytest.approx(6 * 1.4)
    assert tight.one == pytest.approx((4 + 2 * 2) + (4 + 8.4) + (8 + 8.4))
    assert tight.floor_pairs < wide.floor_pairs
    assert tight.for_floor() == 0.0 < wide.for_floor()
    assert wide.shortest == pytest.approx(14.0), "no hope is counted on in comfort"


def test_time_that_has_run_away_before_the_climb_is_made_tight_for_one_candidate() -> None:
    late = Budget(100.0, spent=65.0)
    late.settled(4.0, 1.0)
    assert not late.allows_another()
    late.pressed(0.6)
    assert late.tight
    assert late.allows_another()
    in_time = Budget(100.0)
    in_time.settled(4.0, 1.0)
    in_time.pressed(0.6)
    assert not in_time.tight
    assert in_time.allows_another(first=20.0)
    assert not in_time.allows_another(first=60.0)


def test_too_short_a_budget_says_which_one_would_do() -> None:
    budget = Budget(25.0)
    budget.settled(4.0, 1.0)
    assert not budget.suffices(0.6)
    needed = budget.needed(budget.one)
    assert needed % 5 == 0
    enough = Budget(needed, spent=25.0 - budget.left)
    enough.settled(4.0, 1.0)
    assert enough.suffices(0.6)
    assert needed - 5 <= budget.one + 0.5


def test_the_best_so_far_sets_the_pace_but_the_final_race_has_the_plain_script() -> None:
    budget = Budget(300.0)
    budget.settled(4.0, 2.0)
    budget.kept(6.0, 0.5)
    assert budget.shortest == pytest.approx(7 * 1.0)
    assert budget.final == pytest.approx(14 * 2.5)
    assert budget.start_up == 6.0
