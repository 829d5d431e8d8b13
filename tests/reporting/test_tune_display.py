"""A tune while it runs: what a terminal and a pipe show."""

import io
import math
import time
from dataclasses import replace

import pytest
from rich.console import Console

from hotlap.core.spec import Mode
from hotlap.core.technique import Numerics
from hotlap.reporting import live_screen
from hotlap.reporting.tune_display import NOTHING_NEW, TuneDisplay, bar
from hotlap.trial.launch import Setting
from hotlap.trial.race import RaceResult
from hotlap.trial.stats import Estimate, Verdict
from hotlap.tune.candidates import Wanted
from hotlap.tune.result import OUT_OF_TIME, Outcome, Status
from hotlap.tune.state import TuneConfig

CONFIG = TuneConfig(Setting(("python", "train.py"), Mode.RACE), Wanted(set(Numerics)), 145.0)
ESTIMATE = Estimate(1.3, 1.1, 1.5, 9, 0.95)
RACE = RaceResult(ESTIMATE, Verdict.FASTER, "step", True, 1, 1, 1, 1, 0, 0, 9)
KEPT = Outcome("cached_dataset", Status.KEPT, "losses equal", {}, RACE)


def play(display: TuneDisplay) -> None:
    display.stage("A/A test")
    display.candidates(["cached_dataset", "tf32", "fused_optimizer"])
    display.racing("cached_dataset", {})
    display.outcome(KEPT)
    display.outcome(Outcome("tf32", Status.NOT_RACED, OUT_OF_TIME))
    display.racing("fused_optimizer", {})
    display.pair(ESTIMATE)


def test_a_pipe_gets_one_line_for_each_event_and_none_when_silent() -> None:
    stream = io.StringIO()
    display = TuneDisplay(Console(file=stream, width=200), CONFIG, verbose=True)
    with display.showing():
        play(display)
    lines = stream.getvalue().splitlines()
    assert lines == [
        "hotlap: A/A test",
        "hotlap: 3 candidates: cached_dataset, tf32, fused_optimizer",
        "hotlap: racing cached_dataset",
        "hotlap: cached_dataset 1.30x [1.10, 1.50] memory same kept: losses equal",
        "hotlap: racing fused_optimizer",
    ]
    silent = io.StringIO()
    display = TuneDisplay(Console(file=silent), CONFIG, verbose=False)
    with display.showing():
        play(display)
    assert silent.getvalue() == ""


def test_a_race_that_gave_no_further_pair_repeats_no_figure() -> None:
    stream = io.StringIO()
    display = TuneDisplay(Console(file=stream, width=200), CONFIG, verbose=True)
    with display.showing():
        for _ in range(2):
            display.racing("cached_dataset", {})
            display.outcome(KEPT)
    *_, first, _, second = stream.getvalue().splitlines()
    assert "1.30x" in first
    assert second == f"hotlap: cached_dataset: {NOTHING_NEW}"


def test_as_many_candidates_are_named_as_are_counted() -> None:
    stream = io.StringIO()
    display = TuneDisplay(Console(file=stream, width=200), CONFIG, verbose=True)
    with display.showing():
        display.candidates(["tf32", "cpu_threads", "cpu_threads"])
    assert "3 candidates: tf32, cpu_threads (2 values)" in stream.getvalue()


def test_what_began_to_race_has_an_outcome_in_a_pipe() -> None:
    stream = io.StringIO()
    display = TuneDisplay(Console(file=stream, width=200), CONFIG, verbose=True)
    inert = Outcome("tf32", Status.NOT_APPLICABLE, "it found nothing to change in this script")
    with display.showing():
        display.outcome(inert)
        display.racing("tf32", {})
        display.outcome(inert)
    assert [line for line in stream.getvalue().splitlines() if "tf32" in line] == [
        "hotlap: racing tf32",
        "hotlap: tf32 not applicable: it found nothing to change in this script",
    ]


def test_a_pipe_is_never_silent_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_screen, "SILENCE_SECONDS", 0.1)
    stream = io.StringIO()
    display = TuneDisplay(Console(file=stream, width=200), CONFIG, verbose=True)
    with display.showing():
        play(display)
        end = time.monotonic() + 10
        while "pairs" not in stream.getvalue() and time.monotonic() < end:
            time.sleep(0.1)
    assert "of 2 min 25 s: fused_optimizer  1.30x [1.10, 1.50], 9 pairs" in stream.getvalue()


@pytest.mark.parametrize(("width", "height"), [(80, 24), (140, 40), (40, 12)])
def test_the_live_display_fits_the_terminal(width: int, height: int) -> None:
    out = Console(file=io.StringIO(), width=width, height=height, force_terminal=True)
    display = TuneDisplay(out, CONFIG, verbose=True)
    for number in range(30):
        display.outcome(replace(KEPT, values={"n": number}, status=Status.NOT_FASTER))
    play(display)
    with out.capture() as capture:
        out.print(display._draw())
    lines = Console(force_terminal=False).render_str(capture.get()).plain.splitlines()
    assert len(lines) <= height - 1
    text = "\n".join(lines)
    assert "hotlap tune python train.py" in text
    if width >= 80:
        assert "best so far 1.30x" in text
        assert "candidate 32 of 32: fused_optimizer  1.30x [1.10, 1.50], 9 pairs" in text
        assert "0.25x ....." in text


def test_the_bar_shows_the_interval_and_one() -> None:
    shown = bar(Estimate(2.0, 1.5, 3.0, 6, 0.95)).split()[1]
    assert shown.index("|") < shown.index("=") < shown.index("o") < shown.rindex("=")
    endless = bar(Estimate(2.0, 0.0, math.inf, 2, 0.95)).split()[1]
    assert "=" not in endless
    assert "o" not in endless
    far = bar(Estimate(60.0, 50.0, 70.0, 6, 0.95)).split()[1]
    assert far.endswith("o")


def test_a_long_start_says_what_it_is_for_and_how_long_it_takes() -> None:
    out = Console(file=io.StringIO(), width=120, height=30, force_terminal=True)
    display = TuneDisplay(out, CONFIG, verbose=True)
    display.note("the machine is noisy")
    display.racing("cached_dataset", {})
    display._since -= 34
    assert display._current() == (
        "starting cached_dataset, which runs through an epoch first, 34 s"
    )
    display.racing("fused_pointwise", {"mode": "default"})
    assert "which compiles" in display._current()
    display.racing("no_grad_eval", {})
    assert display._current().startswith("starting no_grad_eval, 0 s")
    with out.capture() as capture:
        out.print(display._draw())
    assert "the machine is noisy" in capture.get()
