"""How much of the time steps are looked at in detail, and the steps between two looks.

To mark a step's phases, to keep the marks and to fold them takes 60 us with cold caches, and leaves
the caches cold for the program; to begin a look takes five times as much. Of a step of half a
millisecond that is a lot. So of short steps the probe looks at `BURST` in a row, then rests until
the sampler asks for the next look. It asks at uneven times, so that looks cannot fall into step
with what the program does every so often.

At rest every boundary passes straight through, and of each step only its end is noted: in cold
caches every object that is touched costs, so the hook behind the optimizer is another one then,
which touches no more than it must. What the ends say is worked out when the rest is over.
"""

from collections.abc import Callable, Container
from itertools import pairwise
from time import perf_counter_ns

from hotlap.seam.steps import Hook

BURST = 8
LONG = 20_000_000
"""Nanoseconds: steps from this length on are all looked at."""
MOST = 4096
"""Steps after which a rest ends although nobody asked."""


class Rest:
    """`ends` are those of the steps so far (ns); the first of them is where the rest began.

    `ask()`, from any thread, asks for a look: the step that is under way is the last of the rest.
    """

    def __init__(self) -> None:
        self.resting = False
        self.ends: list[int] = []
        self.ask: Callable[[], None] = lambda: None
        self._steps = 0
        self._burst = BURST

    def due(self, usual: float) -> bool:
        """Another step was looked at: whether to rest now.

        `usual` is the length of a step in nanoseconds, 0 while it is not known.
        """
        self._burst -= 1
        return self._burst <= 0 and 0 < usual < LONG

    def begin(self, steps: int, now: int) -> None:
        """Rest from now on, for so many steps at most."""
        self.resting = True
        self._steps = min(steps, MOST)
        self.ends[:] = (now,)

    def end(self) -> None:
        """A look begins."""
        self.resting = False
        self._burst = BURST

    def clocking(self, optimizer: object, known: Container[object], after: Hook) -> Hook:
        """What torch is to call at the ends of steps during the rest, most likely this optimizer's.

        It calls `after` once they are as many as the rest may have, and when one steps that is not
        `known`.
        """
        ends, left = self.ends, self._steps

        def clocked(stepped: object, *_: object) -> None:
            nonlocal left
            left -= 1
            if left > 0 and (stepped is optimizer or stepped in known):
                ends.append(perf_counter_ns())
            else:
                after(stepped)

        return clocked

    def taken(self) -> list[int]:
        """What each of the steps took since this was last asked."""
        lasted = [end - begin for begin, end in pairwise(self.ends)]
        del self.ends[:-1]
        return lasted
