"""A rank's signs of life, and its Python stacks when they are asked for: what finds a hang.

Begun by sitecustomize where `hotlap launch` names a folder in HOTLAP_WATCH. Each rank keeps there
`rank-<r>`, a record that the launcher reads without disturbing the rank, and `rank-<r>.stack`, to
which faulthandler writes the stacks of all threads when SIGNAL comes. It does so in C, so that a
rank that is stuck in native code, or holds the interpreter's lock, answers too.
"""

import contextlib
import faulthandler
import mmap
import os
import signal
import struct
import sys
import time
from collections.abc import Callable
from typing import IO

from hotlap.seam.hook import when_imported

VARIABLE = "HOTLAP_WATCH"
RECORD = struct.Struct("<qqd")  # pid, optimizer steps, CLOCK_MONOTONIC of the last one
SIGNAL = int(signal.SIGRTMIN) + 9  # SIGUSR1 and SIGUSR2 are Slurm's, and people's own
_open: list[IO[str]] = []


def boot(folder: str) -> None:
    """Begin the signs of life, if this process is a rank's first Python."""
    rank = os.environ.get("RANK", "")
    helper = "--multiprocessing-fork" in sys.orig_argv  # a spawned loader worker
    if "TORCHELASTIC_RUN_ID" not in os.environ or not rank.isdigit() or helper:
        return
    path = os.path.join(folder, f"rank-{rank}")
    if _taken(path):
        return
    _open.append(open(f"{path}.stack", "w"))  # noqa: SIM115  (for the process's life)
    faulthandler.register(SIGNAL, file=_open[-1], all_threads=True)
    beat = beating(path)
    when_imported("torch", lambda _: _each_step(beat))


def beating(path: str) -> Callable[..., None]:
    """Begin the record and return what adds a step to it."""
    steps, pid = 0, os.getpid()
    with open(path, "w+b") as file:
        file.truncate(RECORD.size)
        record = mmap.mmap(file.fileno(), RECORD.size)
    RECORD.pack_into(record, 0, pid, 0, time.monotonic())

    def beat(*_: object) -> None:
        nonlocal steps
        if os.getpid() == pid:  # a forked process is not the rank
            steps += 1
            RECORD.pack_into(record, 0, pid, steps, time.monotonic())

    return beat


def _taken(path: str) -> bool:
    """Whether a living process has this rank's record: this one is a helper of it then."""
    with contextlib.suppress(OSError, struct.error), open(path, "rb") as file:
        pid = RECORD.unpack(file.read(RECORD.size))[0]
        if pid != os.getpid():
            os.kill(pid, 0)
            return True
    return False


def _each_step(beat: Callable[..., None]) -> None:
    try:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        register_optimizer_step_post_hook(beat)
    except Exception as error:  # the program must start whatever torch this is
        print(f"hotlap: cannot see this rank's steps: {error!r}", file=sys.stderr)
