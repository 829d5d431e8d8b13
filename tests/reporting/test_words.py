import math

import pytest

from hotlap.reporting.words import interval, ratio
from hotlap.trial.stats import Estimate


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (1.214, 1.326, "[1.21, 1.33]"),
        (0.02, 60.0, "[0.02, 60.00]"),
        (0.0, math.inf, "-"),
        (0.0023, 436.06, "-"),
        (1.1, 436.06, "-"),
    ],
)
def test_an_interval_that_says_nothing_is_not_shown(low: float, high: float, shown: str) -> None:
    assert interval(Estimate(1.07, low, high, 3, 0.95)) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1.274, "1.27x"), (0.5, "0.50x"), (0.00421, "0.0042x"), (0.0, "0.00x"), (math.inf, "-")],
)
def test_a_small_ratio_keeps_two_figures(value: float, shown: str) -> None:
    assert ratio(value) == shown
