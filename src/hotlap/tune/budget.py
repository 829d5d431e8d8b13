"""Sharing a fixed time out among the races still to come."""

import time

FINAL_SHARE = 0.2
SHORTEST_RACE = 3.0
LONGEST_RACE = 40.0


class Budget:
    """`seconds` from now; a part is set aside for the final race."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds
        self.start_up = 5.0

    @property
    def left(self) -> float:
        """Seconds left, those set aside included."""
        return self._end - time.monotonic()

    @property
    def reserve(self) -> float:
        """Seconds set aside for the final race: two start-ups and the race itself."""
        return max(2 * self.start_up + 2 * SHORTEST_RACE, FINAL_SHARE * self.seconds)

    def note_start_up(self, seconds: float) -> None:
        """A command took so long until it was settled; the slowest counts."""
        self.start_up = max(self.start_up, seconds) if seconds else self.start_up

    def allows_another(self) -> bool:
        """Whether one more candidate can be started and raced."""
        return self.left - self.reserve > self.start_up + SHORTEST_RACE

    def for_race(self, candidates: int) -> float:
        """Seconds of racing for one of `candidates` that are still to come."""
        share = (self.left - self.reserve) / max(1, candidates) - self.start_up
        return min(LONGEST_RACE, max(SHORTEST_RACE, share))

    def for_final(self) -> float:
        """Seconds for the final race."""
        return max(2 * SHORTEST_RACE, self.left - 2 * self.start_up)
