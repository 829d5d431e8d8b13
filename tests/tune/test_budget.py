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


@pytest.mark.parametrize("pair", [0.6, 6.0])
def test_slow_pairs_make_for_fewer_candidates(pair: float) -> None:
    budget = Budget(120.0)
    budget.pair = pair
    assert budget.shortest == pytest.approx(7 * pair)
    assert budget.allows_another() is (pair < 6.0)
