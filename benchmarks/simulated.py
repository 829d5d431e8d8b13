"""Simulated races: how often a race errs, what it finds, and how far its ratio is off.

`python -m benchmarks.simulated [RACES [SECONDS]]`: runs the real race on sides that only pretend to
run, on a clock of their own. A launch of a side is faster or slower than the program by luck that
lasts (1 sd of the ratio `LUCKS`); a block takes its steps' time, times a stretch by a background
load that comes and goes, times noise. The load and the noise are like those of recorded pairs
(see `LOADS`). What a race is told of a stretch is what the kernel's counters would tell it.
"""

import itertools
import math
import random
import sys
from dataclasses import dataclass, field
from statistics import fmean
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from benchmarks import record
from hotlap.trial.race import Evidence, RaceResult, paired_test, race
from hotlap.trial.side import Pace
from hotlap.trial.stopping import StoppingRules
from hotlap.trial.trial import Block

STEP = 0.01
LUCKS = (0.01, 0.03, 0.05)
RATIOS = (1.0, 1.1, 1.15, 1.3)
LONGEST_SAID = 900.0
"""Seconds: a race that needs more advises a calmer machine instead."""


@dataclass(frozen=True)
class Load:
    """A background load: processes that come and go, their effect, and what no counter shows.

    `processes`: how many there are on 2 cores on average; `share`: scatter of a block's share of
    the cores (1 sd, log); `slope`: effect of the stretch on the wall time; `noise`: the rest (1 sd,
    log), `wild`: chance of a block that takes up to half as long again; `launch`: seconds.
    """

    processes: float
    share: float
    slope: float
    noise: float
    wild: float
    launch: float


LOADS = {
    "calm": Load(0.0, 0.0, 1.0, 0.03, 0.02, 3.0),
    "loaded": Load(5.0, 0.15, 1.0, 0.05, 0.03, 8.0),
    "loaded, threads": Load(5.0, 0.25, 1.2, 0.08, 0.03, 9.0),
    "loaded, waits for data": Load(5.0, 0.25, 0.4, 0.06, 0.03, 9.0),
}


@dataclass
class World:
    """The clock, and how many processes compete now."""

    load: Load
    draw: random.Random
    now: float = 0.0
    running: int = 0
    change: float = 0.0

    def monotonic(self) -> float:
        """Seconds."""
        return self.now

    def stretch(self, seconds: float) -> float:
        """How much longer a block of so many seconds takes from now on; mean over its time."""
        if not self.load.processes:
            return 1.0
        total, left = 0.0, seconds
        while left > 0:
            if self.now + seconds - left >= self.change:
                self.running = min(9, max(0, round(self.draw.gauss(self.load.processes, 2.0))))
                self.change = self.now + seconds - left + self.draw.expovariate(0.8)
            part = min(left, 0.1)
            total += part * max(1.0, (1 + self.running) / 2)
            left -= part
        return max(1.0, total / seconds * math.exp(self.draw.gauss(0, self.load.share)))


@dataclass(eq=False)
class Simulated:
    """A side that pretends to run; each launch has luck of its own."""

    world: World
    step: float
    luck: float
    launches: int = 0
    at: int = 0
    trial: Any = None
    pace: Pace | None = None
    has_workers: bool = False
    whole_epoch: bool = False
    setting: Any = field(default_factory=lambda: SimpleNamespace(techniques={}))
    start_up: float = 0.0
    threads: int = 1
    passive_wait: bool = False
    steady_heap: bool = False
    peak: int = 0
    ends_after: int = 0
    ends: frozenset[int] = frozenset()
    longest_epoch: float = math.inf
    epoch_steps: int = 0
    _own: float = field(default=1.0)

    def start(self) -> None:
        """Launch; half of the time is spent here, so that two take as long as one and a half."""
        if self.trial is None:
            self.world.now += 0.4 * self.world.load.launch
            self._own = math.exp(self.world.draw.gauss(0, self.luck / math.sqrt(2)))
            self.launches, self.at, self.trial = self.launches + 1, 100, self

    def memory_over(self, other: "Simulated", step: float = math.inf) -> float:
        """Memory is of no interest."""
        del other, step
        return 1.0

    def first_step(self) -> None:
        """Nothing is left to wait for."""

    def ready(self) -> Pace:
        """Launch and settle."""
        begin = self.world.now
        if self.trial is None:
            self.start()
            self.world.now += 0.6 * self.world.load.launch
            self.start_up = self.world.now - begin
        return self.ready_pace()

    def ready_pace(self) -> Pace:
        """The pace without load."""
        return Pace(self.step, 0, 0.0, 0.0)

    def block(self, steps: int) -> Block:
        """Let the clock run on."""
        load, draw = self.world.load, self.world.draw
        seconds = steps * self.step * self._own * math.exp(draw.gauss(0, load.noise))
        if draw.random() < load.wild:
            seconds *= draw.uniform(1.0, 1.5)
        stretch = self.world.stretch(seconds)
        wall = seconds * stretch**load.slope
        self.world.now += wall + 0.004  # to stop one and wake the other
        self.at += steps
        ran = steps * self.step
        return Block(
            steps, self.at, wall, ran, (), 0, 0, ran=ran, waited=wall * (1 - 1 / stretch)
        )  # fmt: skip

    def catch_up(self, steps: int) -> None:
        """Run so many steps untimed."""
        self.block(steps)

    def close(self) -> None:
        """End it."""
        self.trial = None


def simulated(load: Load, luck: float, ratio: float, seed: int, **rules: Any) -> RaceResult:
    """One race; `ratio`: how much faster B is."""
    world = World(load, random.Random(seed))
    a, b = (Simulated(world, step, luck) for step in (STEP, STEP / ratio))
    with patch("hotlap.trial.race.time", world):
        return race(a, b, StoppingRules(**rules), busy=False)  # type: ignore[arg-type]


def continued(
    load: Load, luck: float, ratio: float, seed: int, races: int, **rules: Any
) -> list[RaceResult]:
    """Races of one pair of commands, each of which goes on from what those before have shown."""
    world, found = World(load, random.Random(seed)), []
    a, given = Simulated(world, STEP, luck), StoppingRules(**rules)
    evidence = Evidence(paired_test(given))
    with patch("hotlap.trial.race.time", world):
        for _ in range(races):
            b = Simulated(world, STEP / ratio, luck)
            found.append(race(a, b, given, busy=False, evidence=evidence))  # type: ignore[arg-type]
    return found


def settles(load: Load, luck: float, ratio: float, seed: int, seconds: float) -> bool | None:
    """Whether a race that was left open came to a verdict in the time it said it needs.

    None where it was not left open, or named no time below `LONGEST_SAID`.
    """
    world = World(load, random.Random(seed))
    a, b = (Simulated(world, step, luck) for step in (STEP, STEP / ratio))
    evidence = Evidence(paired_test(StoppingRules()))

    def more(seconds: float) -> RaceResult:
        rules = StoppingRules(seconds=seconds)
        return race(a, b, rules, busy=False, evidence=evidence)  # type: ignore[arg-type]

    with patch("hotlap.trial.race.time", world):
        needed = more(seconds).seconds_needed
        if not 0 < needed <= LONGEST_SAID:
            return None
        return more(needed).verdict != "inconclusive"


def figures(found: list[RaceResult], ratio: float) -> dict[str, Any]:
    """What the races of one kind said."""
    called = [r for r in found if r.verdict in ("faster", "slower")]
    fresh = [math.log(r.fresh.ratio / ratio) for r in called if r.fresh]
    covered = sum(r.estimate.low <= ratio <= r.estimate.high for r in found)
    ranked = sorted(math.log(r.estimate.high / max(r.estimate.low, 1e-9)) / 2 for r in found)
    return {
        "called": round(len(called) / len(found), 3),
        "wrongly": sum((r.verdict == "slower") or ratio == 1 for r in called),
        "same": round(sum(r.verdict == "same" for r in found) / len(found), 3),
        "interval covers": round(covered / len(found), 3),
        "half-width, 9 of 10 below": round(ranked[int(0.9 * len(ranked))], 3),
        "bias of the ratio, if called": round(
            fmean(math.log(r.estimate.ratio / ratio) for r in called) if called else 0.0, 4
        ),
        "of the fresh pairs' ratio": round(fmean(fresh), 4) if fresh else None,
        "pairs": round(fmean(r.estimate.pairs for r in found), 1),
        "launches": round(fmean(r.launches for r in found), 2),
        "seconds": round(fmean(r.seconds for r in found), 1),
    }


def main(races: int, seconds: float) -> None:
    """Simulate all kinds of races and write the record."""
    rows = []
    for (name, load), luck, ratio in itertools.product(LOADS.items(), LUCKS, RATIOS):
        found = [simulated(load, luck, ratio, seed, seconds=seconds) for seed in range(races)]
        told = [settles(load, luck, ratio, seed, seconds) for seed in range(races)]
        rows.append(
            {
                "load": name, "luck": luck, "ratio": ratio, **figures(found, ratio),
                "time to settle it told": races - told.count(None), "settled it": told.count(True),
            }
        )  # fmt: skip
        print(*rows[-1].values(), flush=True)
    against_itself = [row for row in rows if row["ratio"] == 1.0]
    record.write(
        f"simulated-{races}-{seconds:.0f}s",
        f"python -m benchmarks.simulated {races} {seconds:.0f}",
        rows,
        {
            "A/A races": races * len(against_itself),
            "called": sum(row["wrongly"] for row in against_itself),
            "time to settle it told": sum(row["time to settle it told"] for row in rows),
            "settled it": sum(row["settled it"] for row in rows),
        },
    )


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    main(*given, *(200, 30)[len(given) :])
