"""The recorder of the README's film: what a terminal showed, frame by frame, as an SVG."""

import importlib.util
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"
PROGRAM = r"""
import sys, time
print("\033[1;32mracing\033[0m <cached_dataset>", flush=True)
time.sleep(1.2)
print("\033[2J\033[Hkept", sys.stdout.isatty(), flush=True)
"""


@pytest.fixture
def recording(monkeypatch):
    spec = importlib.util.spec_from_file_location("recording", ROOT / "docs" / "recording.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "recording", module)  # its dataclass looks there
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.2)
    return module


def text(row):
    return "".join(run.text for run in row)


def test_screens_of_a_terminal_with_their_colours(recording):
    frames = list(recording.recorded([sys.executable, "-c", PROGRAM]))
    shown = [frame[0] for frame in frames if frame[0]]
    assert [text(row) for row in (shown[0], shown[-1])] == ["racing <cached_dataset>", "kept True"]
    first, rest = shown[0]
    assert (first.colour, first.bold) == (recording.COLOURS["green"], True)
    assert (rest.column, rest.bold) == (6, False)
    assert len(frames) < 4, "screens that did not change are left out"


def test_film_shows_each_frame_for_its_time_and_holds_the_last(recording):
    rows = [((recording.Run(0, f"a < {i}", "#fff", bold=False),), ()) for i in range(4)]
    drawn = ElementTree.fromstring(recording.drawn(rows, "a & b"))
    film = drawn.find(f".//{SVG}g[@id='film']")
    assert [use.get("href") for use in film] == ["#r0", "#r1", "#r2", "#r3"]
    heights = [int(use.get("y")) for use in film]
    assert heights == [i * recording.ROWS * recording.CELL_HEIGHT for i in range(4)]
    style = drawn.find(f"{SVG}style").text
    assert f"translateY({-heights[-1]}px)" in style
    last = (
        100 * 3 * recording.FRAME_SECONDS / (3 * recording.FRAME_SECONDS + recording.LAST_SECONDS)
    )
    assert f"{last:.3f}%" in style
    assert drawn.find(f".//{SVG}g[@id='r2']/{SVG}text").text == "a < 2"
