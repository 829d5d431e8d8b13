"""How much of the time steps are looked at in detail: the shorter they are, the less.

To mark a step's phases, to keep the marks and to fold them takes 60 us with cold caches, and leaves
the caches cold for the program: of a step of half a millisecond that is much. So the probe looks at
a few steps in a row and then rests for a while, in which every boundary passes straight through and
steps are only clocked. How long it rests is drawn at random, so that it cannot fall into step with
what the program does every so often.
"""

import math
import random

DETAIL = 100_000
SHARE = 0.005
BURST = 8
MOST = 64


class Pace:
    """Draws how many steps to rest for."""

    def __init__(self) -> None:
        self._random = random.Random(0)  # the program's own random numbers stay as they were
        self._left = BURST

    def rest(self, usual: float) -> int:
        """Steps to leave out after this one; 0 in the middle of a burst.

        `usual` is the length of a step in nanoseconds, 0 while it is not known. Detail costs 0.5 %
        of a step on average, or is had of one step in 64; long steps are all looked at.
        """
        stride = min(MOST, DETAIL / (SHARE * usual)) if usual else 1.0
        self._left -= 1
        if self._left > 0 or stride <= 1:
            return 0
        self._left = BURST
        return self._random.randrange(1 + 2 * math.ceil(BURST * (stride - 1)))

    def burst(self) -> None:
        """A burst begins before its time."""
        self._left = BURST
