"""Simulated tunes: what a tune finds in its budget, how often it is wrong, what its time goes to.

`python -m benchmarks.simulated_tune [TUNES]`: runs the real search on sides that only pretend to
run, on the clock and under the loads of `benchmarks.simulated`. The script is a small GPT's: five
candidates, one of which compiles. Two processes that start at once take a third longer each.
"""

import itertools
import math
import random
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import fmean
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from benchmarks import record
from benchmarks.simulated import LOADS, Simulated, World
from hotlap.core.machine import detect
from hotlap.core.protocol import ProfilePayload, decode
from hotlap.core.spec import Mode
from hotlap.core.technique import Numerics
from hotlap.trial import race as race_module
from hotlap.trial import switched
from hotlap.trial.data_parity import DataUse
from hotlap.trial.launch import Setting
from hotlap.trial.load import LoadSummary
from hotlap.trial.side import Launch, Pace
from hotlap.trial.trial import Block, TimeOverError
from hotlap.tune import races, search, state, time_plan
from hotlap.tune.candidates import Wanted
from hotlap.tune.result import TuneResult
from hotlap.tune.state import TuneConfig

CANDIDATES = ("mixed_precision", "keep_heap", "fused_optimizer", "cpu_threads", "fused_pointwise")
COMPILES = "fused_pointwise"
COMPILE, PROFILE, SETTLE, STEP, LUCK = 35.0, 14.0, 1.5, 0.05, 0.03
BOTH_START = 1.3
BUDGETS = (180.0, 300.0)
PLANTED: tuple[dict[str, float], ...] = (
    {}, {"mixed_precision": 1.1}, {COMPILES: 1.25}, {"keep_heap": 1.12},
    {"mixed_precision": 1.2, "keep_heap": 1.15},
)  # fmt: skip
PHASES = {"forward": 0.35, "backward": 0.53, "optimizer": 0.07, "other": 0.03}
FACTS = {
    "model": True, "page_faults": True, "optimizer_unfused": True, "compiler": True,
    "float32_model": True, "fast_half": True, "threads": 2,
}  # fmt: skip


@dataclass
class Script:
    """The script of one tune: its world, what techniques give, and when the last start is over."""

    world: World
    gains: Mapping[str, float]
    starting_until: float = 0.0

    def monotonic(self) -> float:
        """Seconds."""
        return self.world.now


class Process(Simulated):
    """A side of a tune: it starts by itself, may be held, and keeps to a deadline."""

    def __init__(self, script: Script, setting: Setting, deadline: float) -> None:
        super().__init__(script.world, STEP, LUCK)
        self.script, self.setting, self.deadline = script, setting, deadline
        self.log: list[Launch] = []
        self.starting = self._begun = self._due = self._held_at = self._stood = 0.0
        self._settled = False
        self.peak, self.data, self.outputs = 1000, DataUse(), ()
        self.losses = [1 / step for step in range(1, 60)]
        self.held, self.inert = dict.fromkeys(setting.techniques), dict[str, str]()
        self.also: dict[str, dict[str, object]] = {}
        self._with({})

    def _with(self, also: dict[str, dict[str, object]]) -> None:
        """Its step with these switched on."""
        names = {*self.setting.techniques, *also}
        self.step = STEP / math.prod(self.script.gains.get(name, 1.0) for name in names)
        self.held |= dict.fromkeys(also)

    def pace_with(self, also: dict[str, dict[str, object]]) -> Pace:
        """Settle with these switched on."""
        self.ready()
        self.also = also
        self._with(also)
        self._wait(SETTLE / 3)
        return Pace(self.step, 0, 0.0, 0.0)

    def start(self) -> None:
        """Launch; it comes to its first step by itself."""
        if self.trial is not None:
            return
        world = self.world
        self._own = math.exp(world.draw.gauss(0, self.luck / math.sqrt(2)))
        self.launches, self.at, self.trial = self.launches + 1, 100, self
        seconds = world.load.launch + (COMPILE if COMPILES in self.setting.techniques else 0.0)
        alone = self.script.starting_until <= world.now
        self._begun, self._stood = world.now, 0.0
        self._due = world.now + seconds * (1.0 if alone else BOTH_START)
        self.script.starting_until = max(self.script.starting_until, self._due)
        self.log.append(Launch(world.now))

    def hold(self) -> None:
        """Stop it on its way to its first step."""
        if self.trial is not None and not self._held_at and self.world.now < self._due:
            self._held_at = self.world.now

    def first_step(self) -> None:
        """Wait for its first step."""
        self.start()
        now = self.world.now
        if self._held_at:
            self._due += now - self._held_at
            self._stood += now - self._held_at
            self._held_at = 0.0
        if not self._settled:
            self._stood += max(0.0, now - self._due)
            self._wait(self._due - now)

    def ready(self) -> Pace:
        """Launch and settle."""
        self.first_step()
        if not self._settled:
            self._wait(SETTLE)
            self._settled = True
            self.log[-1].ready = self.world.now
            self.start_up = self.world.now - self._begun - self._stood
        return self.ready_pace()

    def _wait(self, seconds: float) -> None:
        begin = self.world.now
        self.world.now = min(begin + max(0.0, seconds), max(begin, self.deadline))
        self.starting += self.world.now - begin
        self._over()

    def _over(self) -> None:
        if self.world.now >= self.deadline:
            self.close()
            raise TimeOverError("the time was over")

    def block(self, steps: int) -> Block:
        """Run a block, unless the deadline comes first."""
        self.ready()
        self._with(self.also)
        found = super().block(steps)
        self.world.now = min(self.world.now, self.deadline)
        self._over()
        self.log[-1].raced += found.wall
        return found

    def close(self) -> None:
        """End it."""
        if self.trial is not None:
            self.log[-1].ended = self.world.now
        self.trial, self._settled, self._held_at = None, False, 0.0


class NoLoad:
    """In the place of what looks at the machine that the simulation runs on."""

    def begin(self) -> None:
        """A block begins."""

    def end(self, *_: float) -> None:
        """A block is over."""

    def summary(self) -> LoadSummary:
        """No load."""
        return LoadSummary()

    def now(self) -> bool:
        """Nobody else wants the cores."""
        return False

    def cores(self) -> float:
        """Others use none."""
        return 0.0


@dataclass
class Silent:
    """Sees nothing."""

    ignored: Any = field(default=lambda *_: None)

    def __getattr__(self, _: str) -> Any:
        return self.ignored


def tuned(load: str, gains: Mapping[str, float], budget: float, seed: int) -> TuneResult:
    """One tune."""
    script = Script(World(LOADS[load], random.Random(seed)), gains)

    def look(*_: object) -> SimpleNamespace:
        script.world.now += PROFILE
        phases = {name: {"mean": share} for name, share in PHASES.items()}
        fields = {"facts": FACTS, "phases": phases, "step": {"mean": 1.0}, "faults": 0.05}
        return SimpleNamespace(payload=decode(ProfilePayload, fields), asleep=False)

    def side(setting: Setting, *_: object, deadline: float, **__: object) -> Process:
        return Process(script, setting, deadline)

    config = TuneConfig(
        Setting(("python", "train.py"), Mode.RACE), Wanted(set(Numerics), CANDIDATES), budget
    )
    with ExitStack() as stack:
        for module in (search, state, time_plan, races, race_module, switched):
            stack.enter_context(patch.object(module, "time", script))
        for module in (search, state, race_module):
            stack.enter_context(patch.object(module, "available_memory", lambda: 1 << 40))
        for module in (race_module, switched):
            stack.enter_context(patch.object(module, "LoadMeter", NoLoad))
        stack.enter_context(
            patch.multiple(races, BusyWatch=NoLoad, OtherPrograms=NoLoad, Side=side)
        )
        stack.enter_context(patch.object(search, "look", look))
        stack.enter_context(patch("os.getloadavg", lambda: (0.1, 0.1, 0.1)))
        return search.tune(config, detect(), Silent())


def figures(found: list[TuneResult], gains: Mapping[str, float]) -> dict[str, Any]:
    """What the tunes of one kind found."""
    kept = [{row.technique for row in one.kept} for one in found]
    best = math.fsum(map(math.log, gains.values()))
    gained = [
        math.fsum(math.log(gains.get(name, 1.0)) for name in names) * one.confirmed
        for names, one in zip(kept, found, strict=True)
    ]
    shares = {
        name: round(fmean(getattr(one.time_use, name) / one.seconds for one in found), 2)
        for name in ("profiling", "starting", "racing")
    }
    return {
        "kept": {name: round(fmean(name in names for names in kept), 3) for name in gains},
        "wrongly": sum(bool(names - gains.keys()) for names in kept),
        "confirmed": round(fmean(one.confirmed for one in found), 3),
        "share of the gain": round(fmean(gained) / best, 3) if best else None,
        **shares,
        "processes": round(fmean(len(one.time_use.processes) for one in found), 1),
        "without a race": round(fmean(one.time_use.unraced for one in found), 1),
        "seconds": round(fmean(one.seconds for one in found)),
    }


def main(tunes: int) -> None:
    """Simulate all kinds of tunes and write the record."""
    rows = []
    for load, budget, gains in itertools.product(("calm", "loaded"), BUDGETS, PLANTED):
        found = [tuned(load, gains, budget, seed) for seed in range(tunes)]
        about = {"load": load, "budget": budget, "planted": gains}
        rows.append(about | figures(found, gains))
        print(*rows[-1].values(), flush=True)
    record.write(
        f"simulated-tune-{tunes}",
        f"python -m benchmarks.simulated_tune {tunes}",
        rows,
        {"tunes": tunes * len(rows), "wrongly kept": sum(row["wrongly"] for row in rows)},
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
