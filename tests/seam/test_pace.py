"""How much of the time a step is looked at in detail."""

from hotlap.seam.probe.pace import BURST, DETAIL, MOST, SHARE, Pace


def rests(usual, steps=4000):
    pace = Pace()
    return [pace.rest(usual) for _ in range(steps)]


def detailed(usual):
    """The part of the steps that is looked at."""
    found = rests(usual)
    return len(found) / (len(found) + sum(found))


def test_detail_costs_the_same_share_of_short_and_of_longer_steps():
    for usual in (0.5e6, 2e6):
        assert 0.75 * SHARE < detailed(usual) * DETAIL / usual < 1.25 * SHARE


def test_very_short_steps_are_still_looked_at():
    assert detailed(1e4) > 0.8 / MOST


def test_long_steps_and_those_of_unknown_length_are_never_left_out():
    assert detailed(20e6) == detailed(0.0) == 1


def test_steps_are_looked_at_several_in_a_row_and_at_uneven_times():
    found = rests(0.5e6, 80 * BURST)
    lengths = [rest for rest in found if rest]
    assert 70 <= len(lengths) <= 80
    assert len(set(lengths)) > 40


def test_a_burst_that_begins_early_is_a_whole_one():
    pace = Pace()
    for _ in range(BURST - 1):
        assert not pace.rest(0.5e6)
    pace.burst()
    assert not any(pace.rest(0.5e6) for _ in range(BURST - 1))
