"""Record a terminal: `python -m docs.recording`, part of `make screenshots`.

Runs `hotlap tune` on the example in a terminal of its own, looks at the screen once in a while, and
draws what was seen as an animated SVG. Nothing in it is edited but its speed, which the title says.
Then Chromium draws the report of that run, and its document goes to the records.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from itertools import groupby
from pathlib import Path
from select import select

import pyte
from ptyprocess import PtyProcess
from pyte.screens import Char

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "digits"
IMAGES = Path(__file__).parent / "images"
WORDS = ("tune", "--budget", "145s", "python", "train.py")
ROWS, COLUMNS = 34, 96
LOOK_SECONDS = 2.0  # of the run, between two frames
FRAME_SECONDS = 0.25  # of the picture
LAST_SECONDS = 8.0
REPORT_SIZE = "1000,1250"
CELL_WIDTH, CELL_HEIGHT, TOP, MARGIN = 8.4, 19, 40, 14
COLOURS = {
    "default": "#d6deeb", "black": "#697098", "red": "#ff6b6b", "green": "#7fdb8f",
    "brown": "#f2c879", "blue": "#82aaff", "magenta": "#c792ea", "cyan": "#7fdbca",
    "white": "#ffffff",
}  # fmt: skip
STYLE = """
text {{ font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; white-space: pre }}
.b {{ font-weight: bold }}
#film {{ animation: film {seconds:.2f}s infinite step-end }}
@keyframes film {{ {stops} }}
@media (prefers-reduced-motion: reduce) {{
  #film {{ animation: none; transform: translateY({end}px) }}
}}
"""


@dataclass(frozen=True)
class Run:
    """Neighbouring characters of one look, from a column on."""

    column: int
    text: str
    colour: str
    bold: bool


Row = tuple[Run, ...]


def recorded(command: list[str]) -> Iterator[tuple[Row, ...]]:
    """The screen of a command once in a while, and at its end, where it has changed."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    env = {**os.environ, "TERM": "xterm-256color", "PATH": _path()}
    child = PtyProcess.spawn(command, cwd=str(EXAMPLE), env=env, dimensions=(ROWS, COLUMNS))
    last: tuple[Row, ...] = ()
    runs = True
    while runs:
        runs = _follow(child, stream, time.monotonic() + LOOK_SECONDS)
        now = tuple(_runs(screen, row) for row in range(ROWS))
        if now != last:
            yield now
        last = now


def _follow(child: PtyProcess, stream: pyte.ByteStream, until: float) -> bool:
    """Feed what the command prints; False once it is over."""
    while (left := until - time.monotonic()) > 0:
        if select([child.fd], [], [], left)[0]:
            try:
                stream.feed(child.read(65536))
            except EOFError:
                return False
    return True


def _runs(screen: pyte.Screen, row: int) -> Row:
    """One row as runs of the same look, blanks at its end left out."""

    def look(cell: tuple[int, Char]) -> tuple[str, bool]:
        return _colour(cell[1].fg), bool(cell[1].bold)

    cells = [(column, screen.buffer[row][column]) for column in range(COLUMNS)]
    while cells and not cells[-1][1].data.strip():
        cells.pop()
    found = []
    for (colour, bold), group in groupby(cells, look):
        members = list(group)
        text = "".join(cell.data for _, cell in members)
        if text.strip():
            found.append(Run(members[0][0], text, colour, bold))
    return tuple(found)


def _colour(name: str) -> str:
    bright = name.removeprefix("bright")
    return COLOURS.get(bright) or (f"#{name}" if len(name) == 6 else COLOURS["default"])


def drawn(frames: list[tuple[Row, ...]], title: str) -> str:
    """An SVG film: the frames lie below one another, and one of them shows at a time."""
    numbers = {row: i for i, row in enumerate(dict.fromkeys(r for f in frames for r in f if r))}
    height = ROWS * CELL_HEIGHT
    width = round(COLUMNS * CELL_WIDTH + 2 * MARGIN)
    seconds = FRAME_SECONDS * (len(frames) - 1) + LAST_SECONDS
    stops = " ".join(
        f"{100 * i * FRAME_SECONDS / seconds:.3f}% {{ transform: translateY({-i * height}px) }}"
        for i in range(len(frames))
    )
    style = STYLE.format(seconds=seconds, stops=stops, end=-(len(frames) - 1) * height)
    defs = "".join(_row(f"r{number}", row) for row, number in numbers.items())
    film = "".join(
        f'<use href="#r{numbers[row]}" y="{i * height + line * CELL_HEIGHT}"/>'
        for i, frame in enumerate(frames)
        for line, row in enumerate(frame)
        if row
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height + TOP + MARGIN}" '
        f'role="img" aria-label="{escape(title)}"><style>{style}</style><defs>{defs}</defs>'
        f'<rect width="100%" height="100%" rx="8" fill="#0f1524"/>'
        f'<text x="{width / 2}" y="25" text-anchor="middle" fill="#8f9bb3">{escape(title)}</text>'
        f'<svg x="{MARGIN}" y="{TOP}" width="{width - MARGIN}" height="{height}">'
        f'<g id="film">{film}</g></svg></svg>\n'
    )


def _row(name: str, row: Row) -> str:
    texts = "".join(
        f'<text x="{run.column * CELL_WIDTH:.1f}" y="15" fill="{run.colour}" '
        f"textLength='{len(run.text) * CELL_WIDTH:.1f}' class='{'b' if run.bold else 'p'}'>"
        f"{escape(run.text)}</text>"
        for run in row
    )
    return f'<g id="{name}">{texts}</g>'


def _path() -> str:
    return f"{Path(sys.executable).parent}:{os.environ['PATH']}"


def photograph(report: Path, target: Path) -> None:
    """Draw the head of an HTML report as a PNG."""
    with tempfile.TemporaryDirectory() as user_data:
        subprocess.run(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             "--disable-background-networking", f"--user-data-dir={user_data}",
             f"--window-size={REPORT_SIZE}", f"--screenshot={target}", report.as_uri()],
            check=True, capture_output=True, timeout=60,
        )  # fmt: skip


def main() -> None:
    """Record the tune of the example, draw its report, keep its document."""
    from benchmarks.record import folder

    begin = time.monotonic()
    frames = list(recorded([str(Path(sys.executable).parent / "hotlap"), *WORDS]))
    spent = time.monotonic() - begin
    faster = spent / (FRAME_SECONDS * len(frames))
    title = f"hotlap {' '.join(WORDS)} ({spent:.0f} s, shown {faster:.0f} times faster)"
    target = IMAGES / "tune.svg"
    target.write_text(drawn(frames, title), "utf-8")
    print(f"{target.relative_to(ROOT)}: {len(frames)} frames, {target.stat().st_size:,} bytes")
    report = max((EXAMPLE / ".hotlap" / "reports").glob("*-tune.html"))
    photograph(report, IMAGES / "report.png")
    folder().mkdir(parents=True, exist_ok=True)
    shutil.copy(report.with_suffix(".json"), folder() / "demo.json")


if __name__ == "__main__":
    main()
