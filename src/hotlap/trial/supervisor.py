"""Stands between hotlap and a trial, so that nothing of a trial outlives it.

Run as a script: `supervisor.py LAUNCH_FILE LIFE_FD REPORT_FD`. It starts the command, adopts every
process the command leaves behind (it is a subreaper), reports the exit code on REPORT_FD, and
kills whatever is left when the command ends or when LIFE_FD closes, which happens however the
parent dies. What a command that is no trial leaves running (`leaves`) goes on, as without hotlap.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any

import psutil

sys.path[0] = str(Path(__file__).parents[2])  # this hotlap, whatever else is installed
from hotlap.common.disk import no_space  # noqa: E402
from hotlap.isolation import landlock, namespace, seccomp  # noqa: E402
from hotlap.isolation.folders import KEPT, remove_tree  # noqa: E402
from hotlap.isolation.refused_calls import RefusedCalls  # noqa: E402
from hotlap.trial import cleaner  # noqa: E402
from hotlap.trial.cleaner import remove_semaphores, semaphores, sweep_shared_memory  # noqa: E402

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
TIDIERS = ("resource_tracker", "torch_shm_manager")
GRACE = 0.3
REAP_SECONDS = 1.0  # what a killed process may take to give its memory back
SHOWN_CHARACTERS = 120
OUTLIVED = (
    signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
)  # fmt: skip
"""Signals to a whole group that are the program's to answer; hotlap itself ends it by the pipe."""


def main(launch_file: str, life: int, report: int) -> None:
    """Run one trial to its end."""
    launch = json.loads(Path(launch_file).read_text())
    cleaner.start(launch["tidy"], life, [report])  # before: it must not come back to a subreaper
    _prctl(PR_SET_CHILD_SUBREAPER)
    default = [number for number in OUTLIVED if signal.getsignal(number) is not signal.SIG_IGN]
    for number in default:
        signal.signal(number, signal.SIG_IGN)
    ours, theirs = socket.socketpair()
    child = _start(launch, default, theirs)
    if child is None:
        os.write(report, b"127")
        return
    theirs.close()
    code = _wait(child, life, _calls(ours, launch["isolation"]))
    if code and launch["isolation"].get("space"):
        _name_a_full_disk(*launch["isolation"]["space"])
    left = _left()
    if left and code is not None and launch["leaves"]:
        _report(report, code, left)
        _outlive_the_parent(report, launch["tidy"])
        return
    names = kill_tree(os.getpid())
    sweep_shared_memory({*names, child.pid})
    if code is None:
        for folder in launch["tidy"]:
            remove_tree(Path(folder))
        return
    _report(report, code, left)


def _left() -> str:
    """A process that the command has left running, in words; empty if there is none."""
    for process in _below(os.getpid()):
        if (words := " ".join(_words(process)).split()) and not _is_tidier(process):
            return shorten(f"process {process.pid}: {' '.join(words)}", SHOWN_CHARACTERS)
    return ""


def _report(to: int, code: int, left: str) -> None:
    """The exit code, and behind it what the command has left running."""
    with contextlib.suppress(OSError):
        os.write(to, f"{code}\n{left}".encode(errors="replace"))


def _outlive_the_parent(report: int, folders: Sequence[str]) -> None:
    """Stay until the last process has ended, and then remove the folders that they use."""
    for folder in folders:
        with contextlib.suppress(OSError):
            (Path(folder) / KEPT).touch()
    os.close(report)
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):  # nobody is to wait for the end of our output
        os.dup2(null, number)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    for folder in folders:
        remove_tree(Path(folder))


def _start(
    launch: dict[str, Any], default: list[signal.Signals], to_us: socket.socket
) -> "subprocess.Popen[bytes] | None":
    try:
        return subprocess.Popen(  # the command is the user's own
            launch["command"],
            env=launch["env"],
            cwd=launch["cwd"],
            start_new_session=launch["separate"],
            preexec_fn=lambda: _as_child(launch["isolation"], default, to_us),  # noqa: PLW1509
        )
    except OSError as error:
        print(f"hotlap: cannot start {launch['command']}: {error}", file=sys.stderr)
        return None


def _as_child(
    isolation: dict[str, Any], default: list[signal.Signals], to_us: socket.socket
) -> None:
    for number in default:
        signal.signal(number, signal.SIG_DFL)
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        if isolation.get("layout"):
            namespace.enter(isolation["layout"])
        if isolation.get("writable"):
            landlock.restrict(isolation["writable"])
            _listen(to_us)
    except OSError as error:  # rather no trial than one that writes over the user's files
        with contextlib.suppress(OSError):  # where the output is kept, the disk may be full
            os.write(2, f"hotlap: the trial could not be isolated: {error}\n".encode())
        os._exit(126)


def _listen(to_us: socket.socket) -> None:
    """Hand the supervisor the listener of the calls that Landlock does not know."""
    with contextlib.suppress(OSError):  # Landlock alone; the tree's difference names the rest
        listener = seccomp.install() if seccomp.available() else -1
        if listener >= 0:
            socket.send_fds(to_us, [b"\0"], [listener])
            os.close(listener)


def _calls(ours: socket.socket, isolation: dict[str, Any]) -> RefusedCalls | None:
    with ours:
        _, received, _, _ = socket.recv_fds(ours, 1, 1)
    return RefusedCalls(received[0], isolation["writable"]) if received else None


def _name_a_full_disk(folder: str, hint: str) -> None:
    """Programs say in words of their own that a write failed, or nothing at all."""
    if hint and no_space(Path(folder)):
        with contextlib.suppress(OSError):
            os.write(2, f"hotlap: no space is left: {hint}\n".encode())


def _prctl(option: int, value: int = 1) -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _wait(child: "subprocess.Popen[bytes]", life: int, calls: RefusedCalls | None) -> int | None:
    """The exit code; None when the parent is gone. Answers the trial's calls meanwhile."""
    exited = os.pidfd_open(child.pid)
    heard = [exited, life, *([calls.fileno()] if calls else [])]
    while True:
        ready, _, _ = select.select(heard, [], [])
        if exited in ready:
            return child.wait()
        if life in ready:
            return None
        if calls is not None:
            calls.answer()


def kill_tree(root: int) -> set[int]:
    """Kill everything below `root`, those that tidy up shared memory last; return their pids."""
    killed: set[int] = set()
    named: set[int] = set()
    deadline = time.monotonic() + GRACE
    for _ in range(100):
        below = _below(root)
        if not below:
            break
        late = time.monotonic() > deadline
        for process in below:
            tidier = _is_tidier(process)
            named |= semaphores(process.pid) if process.pid not in killed else set()
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGCONT if tidier and not late else signal.SIGKILL)
            killed.add(process.pid)
        time.sleep(0.02)
    _reap(time.monotonic() + REAP_SECONDS)
    remove_semaphores(named)
    return killed


def _below(root: int) -> list[psutil.Process]:
    found = psutil.Process(root).children(recursive=True)
    return [p for p in found if p.is_running() and _status(p) != psutil.STATUS_ZOMBIE]


def _status(process: psutil.Process) -> str:
    try:
        return str(process.status())
    except psutil.Error:
        return str(psutil.STATUS_ZOMBIE)


def _is_tidier(process: psutil.Process) -> bool:
    line = " ".join(_words(process))
    return any(name in line for name in TIDIERS)


def _words(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def _reap(deadline: float) -> None:
    """Wait for every child; else their CPU time would pass for that of other programs."""
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < deadline:
            if not os.waitpid(-1, os.WNOHANG)[0]:
                time.sleep(0.002)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
