"""A program that stands still: it gets nowhere, and does not compute either.

Ranks that wait for one that hangs, a lock that nobody opens, a read that never returns. A program
that computes for long (an evaluation, a compilation) is none: it uses CPU time.
"""

import math
import time
from collections.abc import Callable

IDLE = 0.05
"""Part of one core that waiting takes, torchrun's own looks at its ranks included."""
PAUSE_SECONDS = 10.0
"""Between two looks: the machine or the process was suspended meanwhile."""


class StillWatch:
    """Looks at a program, a few times a second, and says when it has stood still for long enough.

    `patience`: seconds. `cpu`: the CPU seconds that the program has used by now.
    """

    def __init__(self, patience: float, cpu: Callable[[], float]) -> None:
        self._patience = patience
        self._cpu = cpu
        self._progress = self._began = self._used = 0.0
        self._looked = -math.inf

    def restart(self) -> None:
        """From now on."""
        self._looked = -math.inf

    def still(self, progress: float = 0.0) -> bool:
        """Whether it has stood still; `progress`: how far it has come."""
        now = time.monotonic()
        if progress != self._progress or now - self._looked > PAUSE_SECONDS:
            self._begin(progress, now)
        self._looked = now
        if now - self._began < self._patience:
            return False
        if self._cpu() - self._used < IDLE * (now - self._began):
            return True
        self._begin(progress, now)
        return False

    def _begin(self, progress: float, now: float) -> None:
        self._progress, self._began, self._used = progress, now, self._cpu()
