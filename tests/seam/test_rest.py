"""When the probe rests, and what it notes meanwhile."""

import pytest

from hotlap.seam.probe.rest import BURST, LONG, MOST, Rest

pytestmark = pytest.mark.clock


def resting(steps, optimizer="ours"):
    """A rest that has begun, its hook, and what comes behind it."""
    rest, after = Rest(), []
    rest.begin(steps, 0)
    return rest, rest.clocking(optimizer, {"known"}, after.append), after


def test_short_steps_are_looked_at_several_in_a_row():
    rest = Rest()
    for _ in range(3):
        assert [rest.due(0.5e6) for _ in range(BURST)] == [False] * (BURST - 1) + [True]
        rest.end()


def test_a_rest_that_may_not_begin_yet_begins_at_the_next_occasion():
    rest = Rest()
    assert [rest.due(0.5e6) for _ in range(BURST + 2)][-3:] == [True] * 3


def test_long_steps_and_those_of_unknown_length_are_all_looked_at():
    rest = Rest()
    assert not any(rest.due(usual) for usual in (LONG, 0.0) for _ in range(4 * BURST))


def test_a_rest_clocks_every_step_and_ends_after_those_it_may_have():
    rest, clocked, after = resting(5)
    for _ in range(4):
        clocked("ours", (), {})
    assert not after
    clocked("ours", (), {})
    assert after == ["ours"]
    took = rest.taken()
    assert len(took) == 4
    assert all(time > 0 for time in took)
    assert not rest.taken()


def test_an_optimizer_that_was_not_seen_before_ends_a_rest():
    rest, clocked, after = resting(100)
    clocked("ours", (), {})
    clocked("known", (), {})
    assert not after
    clocked("another", (), {})
    assert after == ["another"]
    assert len(rest.taken()) == 2


def test_a_rest_ends_although_nobody_asks():
    _, clocked, after = resting(1 << 62)
    for _ in range(MOST):
        clocked("ours", (), {})
    assert after == ["ours"]
