from hotlap.seam.probe.pace import DETAIL, MOST, SHARE, Pace


def mean_gap(usual):
    pace = Pace()
    return sum(pace.gap(usual) for _ in range(4000)) / 4000


def test_detail_costs_the_same_share_of_short_and_of_longer_steps():
    for usual in (0.5e6, 2e6):
        each = DETAIL / (mean_gap(usual) + 1) / usual
        assert 0.75 * SHARE < each < 1.2 * SHARE


def test_very_short_steps_are_still_looked_at():
    assert mean_gap(1e4) + 1 < 1.1 * MOST


def test_long_steps_and_those_of_unknown_length_are_never_left_out():
    assert mean_gap(20e6) == mean_gap(0.0) == 0
