"""Finds a process of a trial that has torch in it, and hotlap not."""

import time
from pathlib import Path

import psutil

from hotlap.core.errors import NotReachedError

LIBRARY = "libtorch_python"
LOOK_SECONDS = 1.0


class UnreachedCheck:
    """Looks at the processes below a supervisor, at most once a second.

    `reached` is the folder in which each process that hotlap reached leaves a file named
    by its pid.
    """

    def __init__(self, supervisor: int, reached: Path) -> None:
        self._supervisor = supervisor
        self._reached = reached
        self._next = 0.0

    def look(self) -> None:
        """End the wait for a first step that cannot come.

        Raises:
            NotReachedError: a Python process loaded torch without hotlap.
        """
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + LOOK_SECONDS
        try:
            below = psutil.Process(self._supervisor).children(recursive=True)
        except psutil.Error:
            return
        for process in below:
            if self._is_unreached(process):
                raise NotReachedError(
                    f"process {process.pid} trains without hotlap: {_shown(process)}",
                    "`python -S`, or a Python with no site-packages of its own, keeps hotlap out: "
                    "start it in another way",
                )

    def _is_unreached(self, process: psutil.Process) -> bool:
        """A forked process (a loader's worker) shows the command line of the one it came from."""
        try:
            if (self._reached / str(process.pid)).exists() or not _has_torch(process.pid):
                return False
            words, parent = process.cmdline(), process.parent()
            while parent is not None and parent.cmdline() == words:
                if (self._reached / str(parent.pid)).exists():
                    return False
                parent = parent.parent()
        except (psutil.Error, OSError):
            return False
        return True


def _has_torch(pid: int) -> bool:
    return LIBRARY in Path(f"/proc/{pid}/maps").read_text(errors="replace")


def _shown(process: psutil.Process) -> str:
    try:
        return " ".join(" ".join(process.cmdline()).split())[:120]
    except psutil.Error:
        return "it has ended"
