"""Sharing a fixed time out among the races still to come."""

import math
import time

FINAL_SHARE = 0.2
FEWEST_PAIRS = 7
LONGEST_RACE = 40.0
FLOOR_SECONDS = 8.0
FLOOR_PAIRS = 6
TIGHT_PAIRS = 6
TIGHT_FLOOR_PAIRS = 2
ROUNDED = 5.0
MOST_GAIN = 0.9
MOST_OVER = 0.25
LAUNCHES = 2


class Budget:
    """`seconds` in all, of which `spent` are over; a part is set aside for the final race.

    `start_up` is what the plain script or the best so far takes to be launched and settled, `plain`
    and `best` what a block of each takes; all in seconds, as last seen. Where the time is `tight`,
    races are as short as a race may be and of one launch, what-ifs are left out, and a candidate's
    block is taken to be shorter by `gain`, the part of a step that the most valuable one can be
    expected to save.
    """

    def __init__(self, seconds: float, spent: float = 0.0) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds - spent
        self.start_up = 5.0
        self.plain = self.best = 0.3
        self.gain = 0.0
        self.tight = False

    def settled(self, start_up: float, block: float) -> None:
        """The plain script is live: what its start and a block of it took."""
        self.start_up = start_up
        self.plain = self.best = block

    def kept(self, start_up: float, block: float) -> None:
        """A candidate is the best so far."""
        self.start_up = max(self.start_up, start_up)
        self.best = min(self.best, block)
        self.gain = 0.0

    @property
    def left(self) -> float:
        """Seconds left, those set aside included."""
        return self._end - time.monotonic()

    @property
    def _pairs(self) -> int:
        return TIGHT_PAIRS if self.tight else FEWEST_PAIRS

    @property
    def shortest(self) -> float:
        """The shortest race that can show anything, of a candidate and the best so far."""
        return self._pairs * self.best * (2.0 - self.gain)

    @property
    def final(self) -> float:
        """The shortest final race: of the plain script and the best, or what may become it."""
        pairs = self._pairs * (1 if self.tight else 2)
        return pairs * (self.plain + self.best * (1.0 - self.gain))

    @property
    def reserve(self) -> float:
        """Seconds set aside for the final race: two start-ups and the race itself."""
        share = 0.0 if self.tight else FINAL_SHARE * self.seconds
        return 2 * self.start_up + max(self.final, share)

    @property
    def another(self) -> float:
        """Seconds that one more candidate takes at the least."""
        return self.start_up + self.shortest

    @property
    def launches(self) -> int:
        """In how many launches the small gain of a candidate that is live now must show.

        In one where the time is tight, or would not suffice for one more of both.
        """
        again = 2 * self.start_up + 2 * self.shortest
        return LAUNCHES if not self.tight and self.for_gain() > again else 1

    @property
    def floor_pairs(self) -> int:
        """Pairs of the script against itself that must be run."""
        return TIGHT_FLOOR_PAIRS if self.tight else FLOOR_PAIRS

    @property
    def one(self) -> float:
        """Seconds for the script against itself, one candidate, and the final race."""
        floor = self.start_up + self.floor_pairs * 2 * self.plain
        return floor + self.another + self.reserve

    def suffices(self, gain: float) -> bool:
        """Whether it suffices for a candidate that can be expected to save `gain` of a step.

        From here on the time is tight where it would not suffice for that and a what-if in comfort.
        """
        if self.left < self.one + self.another:
            self._tighten(gain)
        return self.left >= self.one

    def pressed(self, gain: float) -> None:
        """The climb begins: where what came before it took too long, make room for a candidate.

        It can be expected to save `gain` of a step. Where even so the time would be overrun by more
        than a part of it, there is no room.
        """
        if self.allows_another():
            return
        self._tighten(gain)
        if self.another + self.reserve - self.left > MOST_OVER * self.seconds:
            self.tight, self.gain = False, 0.0

    def _tighten(self, gain: float) -> None:
        self.tight = True
        self.gain = min(MOST_GAIN, max(0.0, gain))

    def needed(self, seconds: float) -> float:
        """The whole budget with which so many seconds would be left now, rounded up."""
        return math.ceil((self.seconds - self.left + seconds) / ROUNDED) * ROUNDED

    def allows_another(self, first: float = 0.0) -> bool:
        """Whether one more candidate can be started and raced, after so many seconds of others."""
        return self.left - first - self.reserve > self.another

    def for_floor(self) -> float:
        """Seconds for the script against itself."""
        return 0.0 if self.tight else min(FLOOR_SECONDS, 0.08 * self.seconds)

    def for_race(self, candidates: int) -> float:
        """Seconds of racing for one of `candidates` that are still to come."""
        share = (self.left - self.reserve) / max(1, candidates) - self.start_up
        return min(LONGEST_RACE, max(self.shortest, share))

    def for_gain(self) -> float:
        """Seconds of racing for what looks like a large gain: all that the final race leaves."""
        return self.left - self.reserve

    def for_final(self) -> float:
        """Seconds for the final race."""
        return max(self.final, self.left - 2 * self.start_up)
