"""The screen of a long verb: what a terminal and a pipe show."""

import io
import time

import pytest
from rich.console import Console

from hotlap.reporting import live_screen
from hotlap.reporting.live_screen import LiveScreen

pyte = pytest.importorskip("pyte")


def play(screen: LiveScreen, rows: int = 3) -> None:
    screen.stage("observing the script")
    for number in range(rows):
        screen.row(f"batch {2**number}: fits", f"batch {2**number}")
    screen.now("does batch 512 fit?")


@pytest.mark.parametrize(("width", "height"), [(80, 24), (140, 40), (40, 12)])
def test_the_screen_fits_the_terminal_and_leaves_nothing(width: int, height: int) -> None:
    stream = io.StringIO()
    out = Console(file=stream, width=width, height=height, force_terminal=True)
    screen = LiveScreen(out, "hotlap batch python train.py " + "--long " * 30, budget=300.0)
    terminal = pyte.Screen(width, height)
    with screen.showing():
        play(screen, rows=60)
        screen._live.refresh()
        pyte.Stream(terminal).feed(stream.getvalue().replace("\n", "\r\n"))
        shown = [line.rstrip() for line in terminal.display]
    assert shown[0].startswith("hotlap batch python train.py")
    assert "of 5 min 0 s   best so far" in shown[1]
    assert "does batch 512 fit?" in shown
    assert shown[-1] == "", "the screen never scrolls"
    after = pyte.Screen(width, height)
    pyte.Stream(after).feed(stream.getvalue().replace("\n", "\r\n"))
    assert not "".join(after.display).strip()


def test_a_pipe_gets_a_line_for_each_event_and_none_when_silent() -> None:
    for verbose, lines in (
        (True, ["hotlap: observing the script", "hotlap: batch 1: fits"]),
        (False, []),
    ):
        stream = io.StringIO()
        screen = LiveScreen(Console(file=stream, width=200), "hotlap batch", verbose=verbose)
        with screen.showing():
            play(screen, rows=1)
        assert stream.getvalue().splitlines() == lines


def test_a_pipe_is_never_silent_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_screen, "SILENCE_SECONDS", 0.1)
    stream = io.StringIO()
    screen = LiveScreen(Console(file=stream, width=200), "hotlap batch", budget=60.0)
    with screen.showing():
        play(screen)
        end = time.monotonic() + 10
        while "512" not in stream.getvalue() and time.monotonic() < end:
            time.sleep(0.05)
    assert "s of 1 min 0 s: does batch 512 fit?" in stream.getvalue()
