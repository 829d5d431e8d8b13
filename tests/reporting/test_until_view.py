"""The pages of a race and of a tune to a target."""

import io
import math
import re
from dataclasses import replace

import pytest
from rich.console import Console

from hotlap.cli.common import plain
from hotlap.reporting import tune_until_text, until_text
from hotlap.reporting.html import headline, page
from hotlap.reporting.until_view import HIGH, courses
from hotlap.trial.time_ratio import Time, time_ratio
from hotlap.tune.result import Status
from hotlap.until.race import Point, Run, UntilResult
from hotlap.until.search import TrainingRow, UntilTune
from hotlap.until.targets import Target

COMMANDS = [["python", "a.py"], ["python", "b.py"]]


def run(seconds, *, reached=True, best=0.2):
    points = tuple(Point(seconds * i / 4, 10 * i, 1 / i) for i in range(1, 5))
    return Run(Time(seconds, reached), best, 40, not reached, points)


def result(*pairs):
    ratio = time_ratio([(a.time, b.time) for a, b in pairs])
    return UntilResult(Target.parse("val<=0.3"), ratio, pairs, 60.0)


def race_page(found):
    return {"verb": "race", **plain(until_text.document(found, COMMANDS))}


def test_a_race_to_a_target_shows_its_seeds_and_the_course_of_the_first():
    found = race_page(result(*((run(8 + i / 10), run(4 + i / 10)) for i in range(5))))
    text = page(found)
    assert headline(found) == "val <= 0.3: B reaches the target sooner; 5 of 5 seeds tell"
    assert "<h1>Inconclusive</h1>" not in text
    assert "<h1>Inconclusive</h1>" in page({**found, "verdict": "inconclusive"})
    assert "4.4 s, 40 steps" in text
    assert text.count("<polyline") == 4  # two commands, over the seconds and over the steps
    assert "until 40 steps" in text
    assert "python a.py  --  python b.py" in text


@pytest.mark.parametrize(("brief", "lines"), [(True, 2), (False, 30)])
def test_the_text_of_a_race_is_two_lines_if_asked_to_be_brief(brief, lines):
    out = Console(width=120, record=True, file=io.StringIO())
    found = result(*((run(8 + i / 10), run(4 + i / 10)) for i in range(5)))
    until_text.show(out, found, COMMANDS, brief=brief)
    text = out.export_text()
    assert "B reaches the target sooner" in text
    assert ("python a.py" in text) == (not brief)
    assert (len(text.splitlines()) == 2) if brief else (len(text.splitlines()) >= lines)


@pytest.mark.parametrize("pairs", [
    (), ((run(8), run(8, reached=False, best=math.nan)),) * 2,
    ((run(8, reached=False), run(8, reached=False)),) * 3,
])  # fmt: skip
def test_a_race_that_tells_nothing_has_a_page(pairs):
    found = race_page(result(*pairs))
    assert "inconclusive" in headline(found)
    assert ("no finite value" in page(found)) == (len(pairs) == 2)


def test_a_tune_to_a_target_shows_what_was_raced_and_the_course_of_what_is_kept():
    kept = result(*((run(8 + i / 10), run(4 + i / 10)) for i in range(5)))
    tuned = UntilTune(("python", "a.py"), kept.target, run(8.0), [
        TrainingRow("lr_schedule", {"steps": 20}, Status.KEPT, "reaches the target sooner", kept),
        TrainingRow("adamw", {}, Status.NOT_APPLICABLE, "it found nothing to change"),
    ])  # fmt: skip
    found = {"verb": "tune", **plain(tune_until_text.document(tuned, None))}
    text = page(found)
    assert headline(found) == "val <= 0.3: kept lr_schedule(20)"
    assert "not applicable: it found nothing to change" in text
    assert text.count("<polyline") == 4
    tuned.rows.pop(0)
    assert "nothing is kept" in page(
        {"verb": "tune", **plain(tune_until_text.document(tuned, None))}
    )


def test_courses_stay_inside_the_picture():
    wild = [{"seconds": i, "steps": i, "value": 10.0**i if i % 9 else None} for i in range(1, 200)]
    for drawn in courses([("A", {"curve": wild})], 5.0):
        heights = [float(y) for y in re.findall(r",([\d.]+)", drawn["lines"][0]["points"])]
        assert all(0 <= height <= HIGH for height in heights)
        assert 0 <= drawn["target"] <= HIGH
    assert courses([("A", {"curve": []})], 1.0) == []


def test_a_start_that_took_the_time_is_named_and_steps_are_counted():
    late = replace(run(20.0, reached=False, best=math.nan), ended=False, started=15.0)
    out = Console(width=300, file=io.StringIO(), record=True)
    until_text.show(out, result((late, run(9.0))), COMMANDS)
    text = out.export_text()
    assert "not in 20.0 s (40 steps, no finite value)" in text
    assert "1 run spent more than half of the time on start-up (up to 15.0 s)" in text
