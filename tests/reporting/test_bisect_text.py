"""What `hotlap bisect` says while it runs."""

import io
import math

from rich.console import Console

from hotlap.reporting.bisect_text import Follow
from hotlap.trial.bisect import Speed, Step
from hotlap.trial.revisions import Commit
from hotlap.trial.stats import Estimate

GOOD, MIDDLE, BAD = (Commit(letter * 40, f"change {letter}") for letter in "abc")


def test_each_race_is_said_as_it_begins_and_as_it_ends() -> None:
    out = io.StringIO()
    follow = Follow(Console(file=out, width=200), enabled=True)
    with follow.showing():
        follow.begin(GOOD, BAD, 2)
        follow.racing(MIDDLE)
        follow.pair(Estimate(0.8, 0.7, 0.9, 7, 0.95))
        assert "change b): speed 0.80x [0.70, 0.90], 7 pairs" in follow._now
        follow.step(Step(MIDDLE, Speed.SLOW, 0.8, 0.7, 0.9), 1)
        follow.racing(BAD)
        follow.step(Step(BAD, Speed.UNKNOWN, math.nan, 0.0, math.inf, "exit code 1"), 2)
    lines = out.getvalue().splitlines()
    assert [line.removeprefix("hotlap: ") for line in lines] == [
        f"searching 2 commits after {GOOD.short}, up to {BAD.short}",
        f"racing {MIDDLE.short} (change b)",
        f"{MIDDLE.short} slow: 0.80x [0.70, 0.90]  (found)",
        f"racing {BAD.short} (change c)",
        f"{BAD.short} not placed: exit code 1  (2 left)",
    ]


def test_a_silent_search_says_nothing() -> None:
    out = io.StringIO()
    follow = Follow(Console(file=out), enabled=False)
    with follow.showing():
        follow.begin(GOOD, BAD, 2)
        follow.racing(BAD)
    assert out.getvalue() == ""
