"""What a terminal of 40, 80 and 140 columns shows: nothing wrapped by it, nothing cut off."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

SCREENS = [(80, 24), (140, 40)]
SCRIPT = """
import torch
model = torch.nn.Linear(16, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(40):
    optimizer.zero_grad()
    model(torch.randn(16, 16)).square().mean().backward()
    optimizer.step()
"""
CONTROL = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|[78DM])")
FAST = [
    ("explain",),
    ("doctor",),
    ("lint", "--list"),
    ("lint", "--hints", "train.py"),
    ("plan", "gpt3-175b", "--batch", "1536", "--gpus", "1024", "--verify", "0"),
    ("plan", "gpt3-175b", "--batch", "8", "--gpus", "2", "--verify", "0"),
    ("bench", "--only", "no_such_row"),
    ("tune", "--only", "no_such_technique", "python", "train.py"),
    ("tune", "--no-such-option", "python", "train.py"),
]
LONG = [
    ("explain", "loader_workers"),  # which shows code, that no terminal of 40 columns holds
    ("profile", "--layers", "--steps", "30", sys.executable, "train.py"),
    ("lr", "--steps", "12", sys.executable, "train.py"),
]


def screen(folder: Path, width: int, height: int, *words: str, **env: str) -> list[str]:
    """The lines that a terminal of this size gets, as long as they were written."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    (folder / "train.py").write_text(SCRIPT)
    kept = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
    process = subprocess.Popen(
        [sys.executable, "-m", "hotlap", *words], cwd=folder, stdin=theirs, stdout=theirs,
        stderr=theirs, env=kept | {"TERM": "xterm-256color"} | env,
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    with os.fdopen(ours, "rb", buffering=0) as seen:
        while part := _read(seen.fileno()):
            shown += part
    assert process.wait(60) in {0, 1, 2}, shown.decode()
    lines = CONTROL.sub("", shown.decode()).replace("\r\n", "\n").split("\n")
    return [line.rpartition("\r")[2] for line in lines]


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end was closed
        return b""


def check(lines: list[str], width: int) -> None:
    """No line is longer than the terminal, but for a word that is; no word or number is cut."""
    assert any(line.strip() for line in lines)
    assert "Traceback" not in "\n".join(lines)
    for line in lines:
        assert len(line) <= width or len(line.split()) <= 2, line
        assert not re.search(r"\w…", line), line


@pytest.mark.parametrize("words", FAST, ids=" ".join)
@pytest.mark.parametrize(("width", "height"), [*SCREENS, (40, 12)])
def test_a_screen_fits(tmp_path: Path, width: int, height: int, words: tuple[str, ...]) -> None:
    check(screen(tmp_path, width, height, *words), width)


@pytest.mark.slow
@pytest.mark.parametrize("words", LONG, ids=" ".join)
@pytest.mark.parametrize(("width", "height"), SCREENS)
def test_the_screen_of_a_run_fits(
    tmp_path: Path, width: int, height: int, words: tuple[str, ...]
) -> None:
    check(screen(tmp_path, width, height, *words), width)


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": ""}], ids=str)
def test_a_plain_terminal_gets_no_colours(tmp_path: Path, env: dict[str, str]) -> None:
    check(screen(tmp_path, 80, 24, "explain", **env), 80)
