"""The ranks of this node as their records show them, and their stacks when asked for."""

import contextlib
import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from hotlap.launch.stacks import Stack, main_stack
from hotlap.seam.beat import RECORD, SIGNAL

GONE = "gone"
ANSWER = 3.0  # seconds that a rank has to write its stacks


@dataclass(frozen=True)
class Rank:
    """One living rank: how many optimizer steps it has made, and for how long none."""

    number: int
    pid: int
    steps: int
    idle: float


@dataclass(frozen=True)
class Answer:
    """What a rank said when it was asked where it stands; `text` is empty if it did not."""

    rank: Rank
    text: str
    state: str

    @property
    def stack(self) -> Stack:
        """The main thread's frames, innermost first."""
        return main_stack(self.text)


def living(folder: Path) -> list[Rank]:
    """The ranks that live, in order."""
    found = [rank for path in folder.glob("rank-*") if (rank := _read(path)) is not None]
    return sorted(found, key=lambda rank: rank.number)


def _read(path: Path) -> Rank | None:
    if path.suffix:
        return None
    with contextlib.suppress(OSError, struct.error):
        pid, steps, since = RECORD.unpack(path.read_bytes())
        if _state(pid) not in {GONE, psutil.STATUS_ZOMBIE}:
            return Rank(int(path.name.removeprefix("rank-")), pid, steps, time.monotonic() - since)
    return None


def ask(folder: Path, ranks: list[Rank]) -> list[Answer]:
    """Have all of them write their stacks at once, and read them."""
    before = {rank: _size(folder, rank) for rank in ranks}
    for rank in ranks:
        with contextlib.suppress(OSError):
            os.kill(rank.pid, SIGNAL)
    deadline, sizes = time.monotonic() + ANSWER, dict(before)
    while time.monotonic() < deadline:
        time.sleep(0.2)
        sizes, last = {rank: _size(folder, rank) for rank in ranks}, sizes
        if sizes == last and all(sizes[rank] > before[rank] for rank in ranks):
            break
    return [Answer(rank, _text(folder, rank, before[rank]), _state(rank.pid)) for rank in ranks]


def _stack_file(folder: Path, rank: Rank) -> Path:
    return folder / f"rank-{rank.number}.stack"


def _size(folder: Path, rank: Rank) -> int:
    with contextlib.suppress(OSError):
        return _stack_file(folder, rank).stat().st_size
    return 0


def _text(folder: Path, rank: Rank, start: int) -> str:
    with contextlib.suppress(OSError):
        return _stack_file(folder, rank).read_bytes()[start:].decode(errors="replace")
    return ""


def _state(pid: int) -> str:
    try:
        return str(psutil.Process(pid).status())
    except psutil.Error:
        return GONE
