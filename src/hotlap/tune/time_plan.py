"""Dividing the time of a tune between the races still to come, by what was measured so far."""

import math
import time

FEWEST_PAIRS = 6
LONGEST_RACE_SECONDS = 40.0
LONGEST_RACE_SHARE = 0.1
NOISE_FLOOR_SECONDS = 8.0
NOISE_FLOOR_SHARE = 0.06
COMPILE_SECONDS = 30.0  # expected of torch.compile until a candidate has been compiled
OVERRUN_SHARE = 0.05
ROUNDED_TO_SECONDS = 15.0


class TimePlan:
    """What is left of the budget, and what the next steps of the search will cost (seconds).

    `start_up` is the longest of the launches of the plain script and of the best so far,
    `plain_block` and `best_block` are what a block of each takes.
    """

    def __init__(self, budget: float) -> None:
        self.budget = budget
        self._begin = time.monotonic()
        self.start_up = 0.0
        self.plain_block = self.best_block = 0.3
        self.compile_seconds = COMPILE_SECONDS
        self.something_kept = False

    def measured(self, start_up: float, block: float) -> None:
        """The plain script is live: what its launch and a block of it took."""
        self.start_up = start_up
        self.plain_block = self.best_block = block

    def kept(self, start_up: float, block: float) -> None:
        """A candidate is the best so far."""
        self.something_kept = True
        self.start_up = max(self.start_up, start_up)
        self.best_block = min(self.best_block, block)

    @property
    def spent(self) -> float:
        """Seconds since the tune began."""
        return time.monotonic() - self._begin

    @property
    def left(self) -> float:
        """Seconds left, those for the final race included."""
        return self.budget - self.spent

    @property
    def shortest_race(self) -> float:
        """Seconds of the shortest race of a candidate that can show anything."""
        return 2 * FEWEST_PAIRS * self.best_block

    @property
    def shortest_final(self) -> float:
        """Seconds of the shortest race of the recipe against the plain script, both live."""
        return FEWEST_PAIRS * (self.plain_block + self.best_block)

    @property
    def reserve(self) -> float:
        """Seconds to leave for the final race.

        With fresh processes once there is something to confirm; before, the pairs alone, as the
        two processes that raced last can go on.
        """
        return self.final_cost if self.something_kept else self.shortest_final

    def race_cost(self, *, compiles: bool = False) -> float:
        """Seconds that one more candidate takes at the least."""
        return self.start_up + self.shortest_race + (self.compile_seconds if compiles else 0.0)

    def allows_race(self, *, compiles: bool = False, first: bool = False) -> bool:
        """Whether one more candidate fits; the `first` may overrun the budget a little."""
        cost = self.race_cost(compiles=compiles)
        if first:
            return self.left + OVERRUN_SHARE * self.budget >= cost + 0.5 * self.reserve
        return self.left >= cost + self.reserve

    @property
    def allows_noise_floor(self) -> bool:
        """Whether the A/A test leaves time for a candidate."""
        return self.left >= self.start_up + 4 * self.plain_block + self.race_cost() + self.reserve

    @property
    def noise_floor(self) -> tuple[float, int]:
        """Seconds and fewest pairs of the A/A test."""
        seconds = min(NOISE_FLOOR_SECONDS, NOISE_FLOOR_SHARE * self.left)
        roomy = self.left > 5 * (self.race_cost() + self.reserve)
        return seconds, FEWEST_PAIRS if roomy else 2

    def allows_upper_bound(self, candidates: int) -> bool:
        """Whether a race that only orients leaves time for every one of so many candidates."""
        return self.left >= (candidates + 1) * self.race_cost() + self.reserve

    def race_seconds(self, candidates: int) -> float:
        """Seconds of racing for one of `candidates` that are still to come."""
        longest = max(LONGEST_RACE_SECONDS, LONGEST_RACE_SHARE * self.budget)
        share = (self.left - self.reserve) / max(1, candidates) - self.start_up
        return min(longest, max(self.shortest_race, share))

    @property
    def promising_seconds(self) -> float:
        """Seconds of racing for what looks like a gain: all that the final race leaves."""
        return max(self.shortest_race, self.left - self.reserve)

    @property
    def start_allowance(self) -> float:
        """Seconds that a candidate may take to its first step, compilation included."""
        return max(3 * self.start_up, self.left - self.reserve)

    @property
    def final_cost(self) -> float:
        """Seconds for a final race of fresh processes."""
        return 2 * self.start_up + 2 * self.shortest_final

    @property
    def final_fits_fresh(self) -> bool:
        """Whether the final race can be one of fresh processes."""
        more = OVERRUN_SHARE * self.budget
        return self.left + more >= 2 * self.start_up + self.shortest_final

    def budget_with(self, seconds: float) -> float:
        """The whole budget that would leave room for so many seconds more, rounded up."""
        if not math.isfinite(seconds):
            seconds = self.budget
        whole = max(self.budget, self.spent) + seconds
        return math.ceil(whole / ROUNDED_TO_SECONDS) * ROUNDED_TO_SECONDS
