"""The search for the commit that slowed a step, on races whose outcome is given."""

import math
import random

import pytest

from hotlap.trial.bisect import Search, Speed, Step
from hotlap.trial.revisions import Commit

COMMITS = [Commit(f"{n:040x}", f"change {n}") for n in range(16)]


def step(commit, speed):
    return Step(commit, speed, 1.0, 0.9, 1.1)


def searching(slow_from, unknown=()):
    asked = []

    def measure(commit):
        at = COMMITS.index(commit)
        asked.append(at)
        if at in unknown:
            return Step(commit, Speed.UNKNOWN, math.nan, 0.0, math.inf, "it fails")
        return step(commit, Speed.SLOW if at >= slow_from else Speed.FAST)

    return Search(COMMITS, measure).run(), asked


@pytest.mark.parametrize("slow_from", range(16))
def test_the_commit_is_found_in_four_races(slow_from):
    result, asked = searching(slow_from)
    assert result.suspects == (COMMITS[slow_from],)
    assert len(asked) <= 4
    assert 15 not in asked  # that it is slow is known


def test_commits_that_cannot_be_placed_leave_a_range_that_holds_the_culprit():
    for _ in range(50):
        slow_from = random.randrange(16)
        unknown = set(random.sample(range(15), 5))
        result, asked = searching(slow_from, unknown)
        assert COMMITS[slow_from] in result.suspects
        assert len(asked) == len(set(asked))
        *others, last = map(COMMITS.index, result.suspects)
        assert set(others) <= unknown
        assert last == 15 or (last in asked and last not in unknown)


def test_an_interruption_keeps_what_is_known():
    def measure(commit):
        if commit is not COMMITS[7]:
            raise KeyboardInterrupt
        return step(commit, Speed.SLOW)

    result = Search(COMMITS, measure).run()
    assert result.interrupted
    assert result.suspects == tuple(COMMITS[:8])
    assert len(result.steps) == 1
