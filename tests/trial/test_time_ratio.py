"""The ratio of times to a target: coverage by simulation, runs that never reach it, few pairs."""

import math
import random

import pytest

from hotlap.trial.stats import Verdict
from hotlap.trial.time_ratio import Time, time_ratio

RACES = 200


def reached(*seconds):
    return [Time(value, True) for value in seconds]


def pairs_of(n, mean, spread, longest=math.inf):
    """Pairs whose log ratio is normal; runs beyond `longest` are given up there."""
    for _ in range(n):
        base = random.gauss(3.0, 0.3)
        times = (math.exp(base + random.gauss(0, spread)) for _ in range(2))
        a, b = next(times), next(times) * math.exp(-mean)
        yield tuple(Time(min(t, longest), t <= longest) for t in (a, b))


@pytest.mark.parametrize("seeds", [3, 5, 8])
@pytest.mark.parametrize("longest", [math.inf, 25.0])
@pytest.mark.parametrize("mean", [0.0, math.log(2)])
def test_the_interval_holds_the_true_ratio(seeds, longest, mean):
    random.seed(seeds)
    races = [time_ratio(list(pairs_of(seeds, mean, 0.1, longest))) for _ in range(RACES)]
    held = sum(r.low <= math.exp(mean) <= r.high for r in races)
    assert held / RACES > 0.95 - 3 * math.sqrt(0.95 * 0.05 / RACES)


def test_without_censoring_it_is_the_paired_t_interval():
    from scipy.stats import t

    random.seed(7)
    pairs = list(pairs_of(6, 0.4, 0.2))
    logs = [math.log(a.seconds / b.seconds) for a, b in pairs]
    mean = sum(logs) / 6
    error = math.sqrt(sum((x - mean) ** 2 for x in logs) / 5 / 6)
    half = t.ppf(0.975, 5) * error
    found = time_ratio(pairs)
    assert found.ratio == pytest.approx(math.exp(mean))
    assert found.low == pytest.approx(math.exp(mean - half), rel=1e-4)
    assert found.high == pytest.approx(math.exp(mean + half), rel=1e-4)


def test_runs_that_never_reach_the_target_count_against_their_side():
    never = [Time(40.0, False)] * 5
    sooner = time_ratio(list(zip(never, reached(10, 11, 9, 10, 12), strict=True)))
    assert sooner.verdict is Verdict.FASTER
    assert math.isinf(sooner.high)
    later = time_ratio(list(zip(reached(10, 11, 9, 10, 12), never, strict=True)))
    assert later.verdict is Verdict.SLOWER
    assert later.low == 0.0


def test_dropping_censored_pairs_would_turn_the_verdict():
    """Where B's slow runs are given up, its remaining times alone would look fast."""
    a = reached(10, 10.5, 9.8, 10.2, 10.1, 10)
    b = [*reached(9, 9.1, 9.2), Time(40, False), Time(40, False), Time(40, False)]
    kept = [(x, y) for x, y in zip(a, b, strict=True) if y.reached]
    assert time_ratio(kept).verdict is Verdict.FASTER
    assert time_ratio(list(zip(a, b, strict=True))).verdict is not Verdict.FASTER


def test_pairs_in_which_no_run_arrives_say_nothing():
    neither = [(Time(30, False), Time(30, False))] * 4
    found = time_ratio([*neither, (Time(10, True), Time(5, True))])
    assert found.pairs == 1
    assert found.verdict is Verdict.INCONCLUSIVE
    assert (found.low, found.high) == (0.0, math.inf)
    assert time_ratio([]).verdict is Verdict.INCONCLUSIVE


def test_equal_times_are_the_same():
    pairs = list(
        zip(reached(10, 10.2, 9.9, 10.1, 10), reached(10.1, 10, 10, 10.2, 9.9), strict=True)
    )
    assert time_ratio(pairs).verdict is Verdict.SAME
