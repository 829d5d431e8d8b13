"""What one process is among the others of a trial: its rank, and how it begins and ends.

A child that `multiprocessing` has forked (the start methods `fork` and `forkserver`) inherits all
that its parent had set up, and it ends by `os._exit`, past `atexit`. In its place it runs its own
finalizers, and before its work the hooks of `register_after_fork`.
"""

import atexit
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import current_process, parent_process, util
from types import ModuleType

from hotlap.core.spec import REACHED

BEFORE_OTHER_FINALIZERS = 100
"""The highest priority that multiprocessing itself gives to a finalizer is 15."""


def rank_and_world() -> tuple[int, int]:
    """Rank and world size: the default process group's, before it is made the launcher's.

    Ranks that the program spawns itself learn theirs only as they join the group; their
    environment need not know it.
    """
    group = _distributed()
    if group is not None:
        return int(group.get_rank()), int(group.get_world_size())
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def _distributed() -> ModuleType | None:
    """torch.distributed once there is a process group; else None."""
    module = sys.modules.get("torch.distributed")
    ready = module is not None and module.is_available() and module.is_initialized()
    return module if ready else None


def at_exit(act: Callable[[], None]) -> Callable[[], None]:
    """Call `act()` as this process ends, and as each of its multiprocessing children ends.

    It may be called twice in one process. Returns what takes it out of this process again.
    """
    wanted = True

    def at_end() -> None:
        if wanted:
            act()

    def in_child(_: object = None) -> None:
        util.Finalize(None, at_end, exitpriority=BEFORE_OTHER_FINALIZERS)

    def forget() -> None:
        nonlocal wanted
        wanted = False
        atexit.unregister(at_end)

    util.register_after_fork(at_end, in_child)  # kept for as long as `at_end` is
    atexit.register(at_end)
    if parent_process() is not None:
        in_child()
    return forget


def serves_its_parent() -> bool:
    """Whether this process is a daemonic child: a loader's worker, or one of a pool."""
    return parent_process() is not None and bool(current_process().daemon)


def note_training(control: str) -> None:
    """Let the other processes of the trial know that this one computes gradients.

    `control` is the address of the trial's control channel, in the trial's folder.
    """
    with suppress(OSError):
        os.close(os.open(_training_mark(control, os.getpid()), os.O_CREAT, 0o600))


def trains(control: str, pid: int) -> bool:
    """Whether a process of the trial has computed gradients."""
    return os.path.exists(_training_mark(control, pid))


def _training_mark(control: str, pid: int) -> str:
    return os.path.join(os.path.dirname(control), REACHED, f"{pid}.trains")
