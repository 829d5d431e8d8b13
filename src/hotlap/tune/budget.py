"""Sharing a fixed time out among the races still to come."""

import time

FINAL_SHARE = 0.2
FEWEST_PAIRS = 7
LONGEST_RACE = 40.0


class Budget:
    """`seconds` from now; a part is set aside for the final race.

    `start_up` is what the plain script or the best so far takes to be launched and settled, and
    `pair` what one pair of blocks takes; both in seconds, both as last seen.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds
        self.start_up = 5.0
        self.pair = 0.6

    @property
    def left(self) -> float:
        """Seconds left, those set aside included."""
        return self._end - time.monotonic()

    @property
    def shortest(self) -> float:
        """The shortest race that can show anything."""
        return FEWEST_PAIRS * self.pair

    @property
    def reserve(self) -> float:
        """Seconds set aside for the final race: two start-ups and the race itself."""
        return 2 * self.start_up + max(2 * self.shortest, FINAL_SHARE * self.seconds)

    def allows_another(self) -> bool:
        """Whether one more candidate can be started and raced."""
        return self.left - self.reserve > self.start_up + self.shortest

    def for_race(self, candidates: int) -> float:
        """Seconds of racing for one of `candidates` that are still to come."""
        share = (self.left - self.reserve) / max(1, candidates) - self.start_up
        return min(LONGEST_RACE, max(self.shortest, share))

    def for_final(self) -> float:
        """Seconds for the final race."""
        return max(2 * self.shortest, self.left - 2 * self.start_up)
