"""How often an ordinary step is looked at in detail: the shorter steps are, the more seldom.

To mark a step's phases costs little; to keep the marks and to fold them costs about 30 us with cold
caches, which is much of a step of half a millisecond. The steps in detail are drawn at random, so
that they cannot fall into step with what the program does every so often.
"""

import math
import random

DETAIL = 30_000
SHARE = 0.005
MOST = 16


class Pace:
    """Draws the number of steps to leave out."""

    def __init__(self) -> None:
        self._random = random.Random(0)  # the program's own random numbers stay as they were

    def gap(self, usual: float) -> int:
        """Steps without detail before the next one in detail.

        `usual` is the length of a step in nanoseconds, 0 while it is not known. Detail costs 0.5 %
        of a step on average, or is had of one step in 16.
        """
        stride = min(MOST, math.ceil(DETAIL / (SHARE * usual))) if usual else 1
        return self._random.randrange(2 * stride - 1)
