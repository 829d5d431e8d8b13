"""Dividing the time of a tune between the races still to come, by what was measured so far."""

import math
import os
import time

from hotlap.trial.side import EPOCHS_TO_SEE
from hotlap.trial.stopping import PAIRS_OF_LAUNCH

FEWEST_PAIRS = 6
"""Pairs of a race that may decide; from them on a wide interval is due to the machine."""
MOST_STRETCH = 3.0  # what is expected of pairs at any load until some were run
LONGEST_RACE_SECONDS = 40.0
LONGEST_RACE_SHARE = 0.1
FEWEST_NOISE_PAIRS = 2
NOISE_FLOOR_SECONDS = 8.0
NOISE_FLOOR_SHARE = 0.06
ORIENTING_SHARE = 0.35  # of the budget: profile, A/A test and upper bounds together
COMPILE_SECONDS = 30.0  # expected of torch.compile until a candidate has been compiled
BOTH_LAUNCHES = 1.5  # two processes launched together, in launches of one
PROMISING_RACES = 2.0  # shortest races that what looks like a gain is given at the least
MOST_OF_FINAL = 0.2  # of the budget: pairs of a final race that other races leave time for
FINAL_RACES = 1.5  # shortest final races that are planned for
ROUNDED_TO_SECONDS = 15.0


class TimePlan:
    """What is left of the budget, and what the next steps of the search will cost (seconds).

    `launching` is what a process takes from its launch until it is ready to race, `start_up` what
    is left of that for one that was launched ahead. `plain_block` and `best_block` are what a block
    of the plain script and of the best so far takes on an idle machine, `final_pair` a pair of both
    (the faster the best is, the more steps are in its block), `stretch` the factor by which pairs
    took longer: the load a core until some were run. `step_block` is what a block of plain steps
    takes, where a candidate can be raced by them. `epoch_fill`: what an epoch takes that fills a
    cache, on an idle machine (0: unknown). `begin`: when the tune began.
    """

    def __init__(self, budget: float) -> None:
        self.budget = budget
        self.begin = time.monotonic()
        self.start_up = self.launching = 0.0
        self.stretch = min(max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)), MOST_STRETCH)
        self.plain_block = self.best_block = self.step_block = 0.3
        self.final_pair = 0.6
        self.epoch_fill = 0.0
        self.compile_seconds = COMPILE_SECONDS
        self.something_kept = False
        self.final_launches = 1
        self.final_pairs = 0
        self.best_compiles = self.best_fills = False

    def measured(self, launching: float, block: float, settling: float = 0.0) -> None:
        """The plain script is live: what its launch and a block of it took.

        Of that, `settling` (0: unknown) is what one that was launched ahead still needs.
        """
        self.launching, self.start_up = launching, settling or launching
        self.plain_block = self.best_block = block
        self.final_pair = 2 * block

    def started(self, start_up: float) -> None:
        """Another process has been started: the mean of this and of what was expected counts."""
        self.start_up = (self.start_up + start_up) / 2

    def filled(self, start_up: float) -> None:
        """A process was started whose first epoch fills a cache, in so many seconds in all."""
        self.epoch_fill = max(0.0, start_up - self.start_up) / self.stretch

    def paired(self, seconds: float, blocks: float) -> None:
        """Pairs of blocks that take so long on an idle machine took so many seconds."""
        self.stretch = (self.stretch + max(1.0, seconds / blocks)) / 2

    def kept(
        self, block: float, final_pair: float, final_launches: int = 1, final_pairs: int = 0,
        *, compiles: bool = False, fills: bool = False,
    ) -> None:  # fmt: skip
        """A candidate is the best so far: its block, and a pair of it and the plain script.

        `final_launches`: of both, that a final race is likely to need, `final_pairs` those that the
        candidate's own race needed on this machine. `compiles`, `fills`: whether
        the best so far does, and with it every candidate from now on.
        """
        self.something_kept = True
        self.final_launches, self.best_compiles, self.best_fills = final_launches, compiles, fills
        self.best_block = min(self.best_block, block)
        self.final_pair, self.final_pairs = final_pair, final_pairs

    @property
    def spent(self) -> float:
        """Seconds since the tune began."""
        return time.monotonic() - self.begin

    @property
    def left(self) -> float:
        """Seconds left, those for the final race included."""
        return self.budget - self.spent

    @property
    def end(self) -> float:
        """The moment (of `time.monotonic`) at which nothing may run any more."""
        return self.begin + self.budget  # ending them takes a little longer

    @property
    def shortest_race(self) -> float:
        """Seconds of the shortest race of a candidate that can show anything."""
        return self.shortest(plain_steps=False)

    @property
    def shortest_final(self) -> float:
        """Seconds of the shortest race of the recipe against the plain script, both live."""
        return FEWEST_PAIRS * self.final_pair * self.stretch

    @property
    def reserve(self) -> float:
        """Seconds to leave for the final race.

        With fresh processes once there is something to confirm; before, the pairs alone, as the
        two processes that raced last can go on.
        """
        return self.final_cost if self.something_kept else self.shortest_final

    def shortest(self, *, plain_steps: bool) -> float:
        """Seconds of the shortest race, which may be one of plain steps."""
        block = min(self.step_block, self.best_block) if plain_steps else self.best_block
        return 2 * FEWEST_PAIRS * block * self.stretch

    def race_cost(
        self, *, compiles: bool = False, plain_steps: bool = False, fills: bool = False
    ) -> float:
        """Seconds that one more candidate takes at the least; `fills`: an epoch before its race."""
        return self.start_cost(compiles=compiles, fills=fills) + self.shortest(
            plain_steps=plain_steps
        )

    def start_cost(self, *, compiles: bool = False, fills: bool = False) -> float:
        """Seconds until one more candidate is ready to be raced."""
        compiling = self.compile_seconds if compiles or self.best_compiles else 0.0
        return self.start_up + compiling + self.filling(fills=fills)

    def filling(self, *, fills: bool) -> float:
        """Seconds of the epoch that passes before a race, of what fills a cache or joins one."""
        return self.epoch_fill * self.stretch if fills or self.best_fills else 0.0

    def allows_race(
        self, *, compiles: bool = False, plain_steps: bool = False, fills: bool = False
    ) -> bool:
        """Whether one more candidate fits; while nothing is kept, half of the shortest race does.

        On an idle machine, that is: a large gain shows in it, and a tune that races nothing, or
        leaves time over, tells nothing.
        """
        cost = self.race_cost(compiles=compiles, plain_steps=plain_steps, fills=fills)
        if self.something_kept:
            return self.left >= cost + self.reserve
        racing = self.shortest(plain_steps=plain_steps)
        return self.latest >= cost - racing + racing / self.stretch / 2

    def allows_another_race(
        self, *, compiles: bool = False, fills: bool = False, after_filling: bool = False
    ) -> bool:
        """Whether a race can follow the one that begins now, so that launching it ahead pays.

        `after_filling`: the one that begins now has an epoch to fill a cache.
        """
        following = self.race_cost(compiles=compiles, fills=fills)
        return self.left >= self.race_cost(fills=after_filling) + following + self.reserve

    def allows_noise_floor(self, *, launched: bool = True) -> bool:
        """Whether the A/A test leaves time for a candidate; its process may be launched already."""
        start_up = self.start_up if launched else self.launching
        pairs = FEWEST_NOISE_PAIRS * 2 * self.plain_block * self.stretch
        return self.left >= start_up + pairs + self.race_cost() + self.reserve

    @property
    def noise_floor(self) -> tuple[float, int]:
        """Seconds and fewest pairs of the A/A test."""
        seconds = min(NOISE_FLOOR_SECONDS, NOISE_FLOOR_SHARE * self.left)
        roomy = self.left > 5 * (self.race_cost() + self.reserve)
        return seconds, FEWEST_PAIRS if roomy else FEWEST_NOISE_PAIRS

    def allows_upper_bound(self, candidates: int) -> bool:
        """Whether a race that only orients leaves time for every one of so many candidates.

        And whether all that came before the first race of a candidate stays below its share.
        """
        if self.spent + self.race_cost() > ORIENTING_SHARE * self.budget:
            return False
        return self.left >= (candidates + 1) * self.race_cost() + self.reserve

    def race_seconds(self, candidates: int, *, plain_steps: bool = False) -> float:
        """Seconds of racing for one of `candidates` that are still to come."""
        longest = max(LONGEST_RACE_SECONDS, LONGEST_RACE_SHARE * self.budget)
        share = (self.left - self.reserve) / max(1, candidates) - self.start_up
        return min(longest, max(self.shortest(plain_steps=plain_steps), share), self.latest)

    def epochs_seconds(self, seconds: float) -> float:
        """What a race of whole epochs takes, where one of both sides takes so many seconds."""
        return (EPOCHS_TO_SEE + FEWEST_PAIRS * self.stretch) * seconds

    def allows(self, seconds: float) -> bool:
        """Whether a race of so many seconds fits, and the final one after it."""
        reserve = self.reserve if self.something_kept else 0.0
        return self.latest - reserve >= seconds

    def shared_epoch_seconds(self, seconds: float) -> float:
        """What one epoch of both sides, of so many seconds, and a race of plain steps take."""
        return self.stretch * seconds + self.shortest(plain_steps=True)

    @property
    def promising_seconds(self) -> float:
        """Seconds of racing for what looks like a gain: all that a final race leaves.

        One of fresh processes, where that leaves enough to prove the gain.
        """
        comfortable = max(PROMISING_RACES * self.shortest_race, self.left - self.final_cost)
        return min(self.latest, max(self.shortest_race, min(comfortable, self.left - self.reserve)))

    @property
    def latest(self) -> float:
        """Seconds until nothing may run any more."""
        return max(0.0, self.left)

    @property
    def start_allowance(self) -> float:
        """Seconds that a candidate may take to its first step, compilation included."""
        return max(3 * self.start_up, self.left - self.reserve)

    @property
    def final_cost(self) -> float:
        """Seconds for a final race of fresh processes, which are launched at the same time.

        The smaller the gain, the more launches it takes to tell it from their differences.
        """
        pairs = max(self.final_launches * PAIRS_OF_LAUNCH, self.final_pairs)
        racing = min(pairs * self.final_pair * self.stretch, MOST_OF_FINAL * self.budget)
        launching = self.final_launches * self._launching_both
        return launching + max(FINAL_RACES * self.shortest_final, racing)

    @property
    def _launching_both(self) -> float:
        compiling = self.compile_seconds if self.best_compiles else 0.0
        return BOTH_LAUNCHES * self.launching + compiling

    @property
    def final_fits_fresh(self) -> bool:
        """Whether the final race can be one of fresh processes."""
        filling = self.filling(fills=False)
        return self.left >= self._launching_both + filling + self.shortest_final

    @property
    def fresh_pairs(self) -> int:
        """Pairs after a verdict, to report a gain by: none if the final race needs the time."""
        needed = self.race_cost() + self.shortest_race + self.final_cost
        return FEWEST_PAIRS if self.left >= needed else 0

    @property
    def noise_floor_seconds(self) -> float:
        """What the A/A test takes where there is time for it, its start included."""
        return self.launching + max(NOISE_FLOOR_SECONDS, 2 * FEWEST_PAIRS * self.plain_block)

    @staticmethod
    def rounded(seconds: float) -> float:
        """A budget, rounded up."""
        return math.ceil(seconds / ROUNDED_TO_SECONDS) * ROUNDED_TO_SECONDS
