"""The steps between two looks: of each only its end is noted.

A step of half a millisecond leaves cold caches behind, in which every frame of Python costs 1 to 2
us. So nothing else is done here, and what the ends say is worked out when the rest is over.
"""

from itertools import pairwise


class Rest:
    """`left` steps are to come that are only clocked; `ends` are those of the steps so far (ns).

    The first of `ends` is where the rest began. The list stays the same object.
    """

    def __init__(self) -> None:
        self.left = 0
        self.ends: list[int] = []

    def begin(self, steps: int, now: int) -> None:
        """Rest from now on."""
        self.left = steps
        self.ends[:] = (now,)

    def taken(self) -> list[int]:
        """What each of the steps took since this was last asked."""
        lasted = [end - begin for begin, end in pairwise(self.ends)]
        del self.ends[:-1]
        return lasted
