"""Cleans up after a trial whose supervisor was killed: the last one left.

It runs in a session of its own and below nobody, so that a SIGKILL for hotlap's whole process
group (`timeout -s KILL`, a closing terminal) does not reach it. It sleeps until both hotlap and the
supervisor have let go of the trial, ends what is left of the trial and removes its folders.
"""

import contextlib
import os
import signal
import time
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from hotlap.isolation.folders import remove_tree

ROUNDS, PAUSE_SECONDS = 100, 0.02


def start(folders: Sequence[str], life: int, others: Iterable[int]) -> int:
    """Fork it; return a descriptor that its starter keeps open for as long as it lives.

    Args:
        folders: those of the trial; the name of the first marks the trial's processes.
        life: the end of the pipe that closes with hotlap.
        others: descriptors that it must not keep open.
    """
    read, write = os.pipe()
    middle = os.fork()
    if middle:
        os.close(read)
        os.waitpid(middle, 0)
        return write
    os.setsid()
    if os.fork():
        os._exit(0)
    try:
        for number in (write, *others):
            os.close(number)
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        for end in (read, life):
            while os.read(end, 1):
                pass
        clean(folders)
    finally:
        os._exit(0)


def clean(folders: Sequence[str]) -> None:
    """End every process that bears the trial's mark, and remove what it left."""
    mark = os.fsencode(Path(folders[0]).name)
    killed: set[int] = set()
    named: set[int] = set()
    for _ in range(ROUNDS):
        found = {pid for pid in _processes() if _bears(pid, mark)} - {os.getpid()}
        if not found:
            break
        for pid in found:
            named |= semaphores(pid)
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        killed |= found
        time.sleep(PAUSE_SECONDS)
    sweep_shared_memory(killed)
    remove_semaphores(named)
    for folder in folders:
        remove_tree(Path(folder))


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208


def _bears(pid: int, mark: bytes) -> bool:
    """Whether a process has the trial's folder in its environment or among its mounts."""
    for name in ("environ", "mountinfo"):
        with contextlib.suppress(OSError):
            if mark in Path(f"/proc/{pid}/{name}").read_bytes():
                return b") Z " not in Path(f"/proc/{pid}/stat").read_bytes()
    return False


def semaphores(pid: int) -> set[int]:
    """The inodes of the named semaphores that a process has open.

    Start methods other than `fork` give them names, and their tracker removes these: unless it is
    killed as well, or had not begun. Who made one knows it by a name that is gone.
    """
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
        return {int(line.split()[4]) for line in lines if "/dev/shm/sem." in line}
    return set()


def remove_semaphores(inodes: Collection[int]) -> None:
    """Remove those of multiprocessing's that are still there."""
    for path in Path("/dev/shm").glob("sem.mp-*") if inodes else ():
        with contextlib.suppress(OSError):
            if path.stat().st_ino in inodes:
                path.unlink()


def sweep_shared_memory(pids: Iterable[int]) -> None:
    """Remove the tensors' shared-memory files that killed workers could not remove."""
    ended = set(pids)
    for path in Path("/dev/shm").glob("torch_*"):
        parts = path.name.split("_")
        if len(parts) > 1 and parts[1].isdigit() and int(parts[1]) in ended:
            with contextlib.suppress(OSError):
                path.unlink()
