"""Where a search stands, and what follows from that for a candidate."""

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

from hotlap.core.machine import Machine, available_memory
from hotlap.core.recipe import Recipe
from hotlap.core.registry import technique
from hotlap.core.technique import Technique
from hotlap.trial.launch import Setting
from hotlap.trial.parity import Noise, Parity
from hotlap.trial.race import Evidence, paired_test
from hotlap.trial.side import Side, block_size
from hotlap.trial.stats import Estimate
from hotlap.trial.stopping import StoppingRules
from hotlap.trial.switched import switched_evidence
from hotlap.trial.trial import TimeOverError
from hotlap.tune.candidates import (
    Candidate,
    Chosen,
    ScriptProfile,
    Wanted,
    excluded,
    joined,
    left_out,
    phases_of,
    pointless,
    sets_workers,
)
from hotlap.tune.races import SWITCHED_LEAST_SECONDS, Races, Watcher, parity_of
from hotlap.tune.result import SENSIBLE_SECONDS, Outcome, Status, TuneResult
from hotlap.tune.time_plan import TimePlan

COMPILE_PATIENCE_SECONDS = 900.0
ROOM = 3
"""Times the memory of one process that must be free for one to be launched ahead of its race."""
PASSING_WORTH = 0.5
"""Of a lasting gain, what one is worth that no recipe keeps, as it depends on the load."""
GAINS_SD = 0.1
"""Spread (log) of what candidates give before anything was raced."""
REPEATS = Noise(deterministic=True, spread=())
FAILED = {Status.BROKE_PARITY: "broke parity", Status.CRASHED: "crashed"}


@dataclass(frozen=True)
class TuneConfig:
    """What to search: the plain command, what is wanted, and how long it may take (seconds).

    `base`: a recipe whose techniques are on in every race of a candidate, and are not raced again.
    """

    setting: Setting
    wanted: Wanted
    budget: float
    min_effect: float = 0.02
    patience: float = 120.0
    base: Recipe = field(default_factory=Recipe)


@dataclass
class Levels:
    """Shares of the chance that any technique is wrongly kept, given out to tests.

    A test of a technique against the best so far takes its share when it first runs, however often
    it is raced: half of it as every other test, half by what the technique can be expected to give,
    so that what is likely to be a large gain needs fewer pairs (Genovese, Roeder & Wasserman 2006,
    "False discovery control with p-value weighting"). An average share is left for tests against a
    later best. What was kept gives its share back: if it is no error, the errors of the others
    alone count (Bretz et al. 2009, "A graphical approach to sequentially rejective multiple test
    procedures").
    """

    left: float = 1.0

    def take(self, expected: float, others: Sequence[float]) -> float:
        """The share of one test; `others`: what can be expected of each of those to come."""
        tests = 1 + len(others)
        total = expected + sum(others)
        weight = (1 / tests + (expected / total if total else 1 / tests)) / 2
        share = self.left * tests / (tests + 1) * weight
        self.left -= share
        return share

    def give_back(self, share: float) -> None:
        """The test with this share found a difference."""
        self.left += share


@dataclass
class Tried:
    """The test of a candidate against the best so far: its share of alpha, what it has shown.

    `switched`: in a live process, by switching it on and off; `evidence`: between two processes.
    `in_vain`: the last race told nothing more than those before.
    """

    share: float
    evidence: Evidence
    switched: Evidence
    races: int = 0
    in_vain: bool = False


@dataclass
class TuneState:
    """Where a search stands: what is known, which processes are live, and what is kept so far.

    `noise` is None until the A/A test has run. `tests` holds what the races of candidates against
    the best so far have shown. `ratio` is a cautious guess of how much faster the best so far is.
    `spare` is a process of the plain script whose losses nobody needs, in which techniques are
    switched on, `only_from_start` those that took no hold there. `candidates` are all that were
    listed. `profile_seconds` are what the profile took. `won` is what the races of the only
    technique kept have shown against the plain script; None where several are kept, or none is.
    `raced_on_plain` is the technique that was kept last when nothing else was.
    """

    config: TuneConfig
    machine: Machine
    watcher: Watcher
    plan: TimePlan
    races: Races
    result: TuneResult
    script: ScriptProfile = field(default_factory=lambda: ScriptProfile({}, {}))
    candidates: Sequence[Candidate] = ()
    noise: Noise | None = None
    levels: Levels = field(default_factory=Levels)
    tests: dict[str, Tried] = field(default_factory=dict)
    ratio: float = 1.0
    profile_seconds: float = 0.0
    won: Evidence | None = None
    raced_on_plain: str = ""
    spare: Side | None = None
    only_from_start: set[str] = field(default_factory=set)
    plain: Side = field(init=False)
    best: Side = field(init=False)

    @property
    def started(self) -> bool:
        """Whether the plain script was launched."""
        return "best" in vars(self)

    @property
    def on_plain(self) -> bool:
        """Whether nothing is on in what is best so far."""
        return self.best is self.plain

    @property
    def chosen(self) -> Chosen:
        """The techniques of the best so far, with their values; none before it is launched."""
        if not self.started:
            return {}
        return {name: dict(values) for name, values in self.best.setting.techniques.items()}

    def record(self, row: Outcome) -> None:
        """What became of a candidate is known."""
        self.result.record(row)
        self.watcher.outcome(row)

    def test_of(self, candidate: Candidate, waiting: Sequence[Candidate]) -> Tried:
        """Its test against the best so far; a new one takes its share of those to come."""
        if candidate.key not in self.tests:
            untested = [other for other in waiting if other.key not in self.tests]
            share = self.levels.take(
                self.script.expected(candidate), [self.script.expected(c) for c in untested]
            )
            rules = StoppingRules(self.config.min_effect, candidates=math.ceil(1 / share))
            evidence = Evidence(paired_test(rules))
            self.tests[candidate.key] = Tried(share, evidence, switched_evidence(rules))
        return self.tests[candidate.key]

    def in_vain(self, candidate: Candidate) -> bool:
        """Whether its last race against the best so far told nothing more than those before."""
        return candidate.key in self.tests and self.tests[candidate.key].in_vain

    def worth(self, row: Outcome, candidate: Candidate) -> float:
        """The gain that can be expected of a second of racing an open row again."""
        seconds, expected = self.cost(candidate), self.script.expected(candidate)
        if candidate.key not in self.tests or row.race is None:
            return expected / seconds
        start_up = 0.0 if self.switched_on(candidate) else self.plan.start_up
        rest = start_up + min(row.seconds_needed, SENSIBLE_SECONDS)
        return expected_gain(row.race.estimate, expected) / max(seconds, rest)

    def switched_on(self, candidate: Candidate) -> Chosen:
        """What a live process of the best so far is given to race it; empty where that cannot be.

        What has to be there from the first step on, or replaces what is, needs its own process.
        """
        chosen = self.with_candidate(candidate)
        more = {name: chosen[name] for name in chosen if chosen[name] != self.chosen.get(name)}
        return more if self.switchable(more) and chosen.keys() >= self.chosen.keys() else {}

    def switchable(self, techniques: Iterable[str]) -> bool:
        """Whether all of these can be switched on in a live process, and took hold in it so far.

        In live worker processes of a loader nothing can.
        """
        workers = self.started and self.best.has_workers
        return all(
            technique(name).switchable
            and name not in self.only_from_start
            and not (workers and "data" in phases_of(technique(name)))
            for name in techniques
        )

    def bench(self) -> Side:
        """The process in which techniques are switched on.

        The plain script's own only where there is no memory for another one: its losses are what
        those of others are compared with, and come to their end with the first switch.
        """
        if self.best is not self.plain:
            return self.best
        if self.spare is None and self.room_for_one_more():
            self.spare = self.races.side({})
        return self.spare or self.plain

    def drop_spare(self) -> None:
        """Nothing is raced on top of the plain script any more, or its memory is needed."""
        if self.spare is not None:
            self.races.drop(self.spare)
            self.spare = None

    def cost(self, candidate: Candidate) -> float:
        """Seconds that a race of it takes at the least."""
        if self.switched_on(candidate):
            shortest = self.plan.shortest(plain_steps=candidate.plain_steps)
            compiling = self.plan.compile_seconds if candidate.compiles else 0.0
            return max(SWITCHED_LEAST_SECONDS, shortest) + compiling
        return self.plan.race_cost(
            compiles=candidate.compiles, plain_steps=candidate.plain_steps, fills=candidate.fills
        )

    def timed_start(self, side: Side, *, compiles: bool = False) -> None:
        """Bring a side to a steady pace; what that took goes into the plan.

        A compilation may take half of the time that is left where that could settle other rows.

        Raises:
            TimeOverError: it took longer, or the side's deadline came.
        """
        begin, deadline = time.monotonic(), side.deadline
        if compiles:
            side.deadline = min(deadline, begin + self._compile_allowance())
        try:
            side.ready()
        except TimeOverError:
            if compiles:
                took = time.monotonic() - begin
                self.plan.compile_seconds = max(self.plan.compile_seconds, took)
            raise
        finally:
            side.deadline = deadline
        if compiles:
            self.plan.compile_seconds = max(0.0, side.start_up - self.plan.launching)
        elif side.whole_epoch:
            self.plan.filled(time.monotonic() - begin)
        else:
            self.plan.started(time.monotonic() - begin)

    def compile_live(self, side: Side, also: Chosen) -> None:
        """Have a live process compile what is switched on in it; what that took goes into the plan.

        Raises:
            TimeOverError: it took longer than a compilation may, or the side's deadline came.
        """
        begin, deadline = time.monotonic(), side.deadline
        side.deadline = min(deadline, begin + self._compile_allowance())
        try:
            side.pace_with(also)
        finally:
            side.also, side.deadline = {}, deadline
            self.plan.compile_seconds = time.monotonic() - begin

    def _compile_allowance(self) -> float:
        expected = self.plan.start_up + self.plan.compile_seconds
        return max(expected, self.plan.latest / (2 if self.result.open else 1))

    def note_pairs(self, a: Side, b: Side, unit: str) -> None:
        """A race is over: what its pairs took goes into the plan."""
        longest = math.inf if unit == "epoch" else 0.0
        size = block_size(a.ready_pace(), b.ready_pace(), longest)
        if self.races.pair_seconds:
            self.plan.paired(self.races.pair_seconds, size.pair_seconds)

    def by_worth(self, waiting: Sequence[Candidate]) -> list[Candidate]:
        """Sort by the gain that can be expected of a second of racing."""
        return sorted(waiting, key=self._per_second, reverse=True)

    def _per_second(self, candidate: Candidate) -> float:
        passing = PASSING_WORTH if candidate.record.load_dependent else 1.0
        return passing * self.script.expected(candidate) / self.cost(candidate)

    def hopeful(self, waiting: Sequence[Candidate]) -> list[Candidate]:
        """Those that something can come of, in the order of their races: by worth.

        Where the largest gain is that of what an epoch fills, and its race fits, it is the first:
        races of smaller gains would take the time that its epoch needs.
        """
        found = [c for c in self.by_worth(waiting) if not self.why_pointless(c)]
        largest = max(found, key=self.script.expected, default=None)
        if largest is not None and largest.fills and self.allows(largest):
            return [largest, *(c for c in found if c is not largest)]
        return found

    def allows(self, candidate: Candidate) -> bool:
        """Whether the time suffices for a race of a candidate, in the units that show it."""
        fits = self.plan.allows_race(
            compiles=candidate.compiles, plain_steps=candidate.plain_steps, fills=candidate.fills
        )
        epochs = self.epochs_raced(candidate)
        return fits and (not epochs or self.plan.allows(self.epochs_cost(candidate.record, epochs)))

    def epochs_cost(self, record: Technique, epoch: float) -> float:
        """Seconds of the cheapest race that shows what an epoch has once; `epoch`: of both sides.

        Of what matters in every step as well one epoch of each is enough: what it has once is
        shared out among plain steps.
        """
        whole = self.plan.epochs_seconds(epoch)
        shared = self.plan.shared_epoch_seconds(epoch)
        return min(whole, shared) if sets_workers(record) else whole

    def epochs_raced(self, candidate: Candidate, side: Side | None = None) -> float:
        """Seconds of an epoch of both sides, where plain steps do not show it; 0 where they do.

        Without a `side`, that of the candidate is taken to be as fast as it can be expected to be.
        """
        best = self.best
        if best.pace is None or best.pace.whole:
            return 0.0
        more = joined(candidate.record, self.chosen, self.script, self.machine)
        names, seen = (candidate.name, *more), side or best
        if not left_out(names, seen.epoch_steps, workers=seen.has_workers):
            return 0.0
        own = 1.0 - self.script.expected(candidate)
        return best.longest_epoch + (side.longest_epoch if side else own * best.longest_epoch)

    def why_pointless(self, candidate: Candidate) -> str:
        """Why nothing could come of racing it now; empty if something could."""
        config = self.config
        return self._joins_a_failure(candidate) or pointless(
            candidate, self.chosen, self.script, config.wanted, config.min_effect
        )

    def _joins_a_failure(self, candidate: Candidate) -> str:
        """Which technique that it is raced together with changed the training, or crashed."""
        more = joined(candidate.record, self.chosen, self.script, self.machine)
        for row in self.result.outcomes:
            if row.status in FAILED and more.get(row.technique) == row.values:
                return f"it is raced together with {row.technique}, which {FAILED[row.status]}"
        return ""

    def room_for_one_more(self) -> bool:
        """Whether memory suffices for a process more than a race needs; on a GPU none is risked."""
        profile = self.result.profile
        peak = max(profile.memory.peak.resident if profile else 0, self.plain.peak)
        return not self.script.facts.get("cuda") and available_memory() > ROOM * peak

    def with_candidate(self, candidate: Candidate) -> Chosen:
        """The techniques of its race: the kept ones, but for those that it replaces."""
        replaced = excluded(candidate, self.chosen)
        more = joined(candidate.record, self.chosen, self.script, self.machine)
        others = {name: values for name, values in self.chosen.items() if name not in replaced}
        return {**others, **more, candidate.name: candidate.values}

    def patience_for(self, candidate: Candidate) -> float:
        """Seconds that it may take to its first step; compiling has an allowance of its own."""
        patience = COMPILE_PATIENCE_SECONDS if candidate.compiles else self.config.patience
        return min(patience, max(patience / 2, self.plan.start_allowance))

    def parity_with_plain(self, side: Side) -> Parity:
        """Whether the losses agree; without an A/A test, by the rule for a script that repeats."""
        return parity_of(side.setting.techniques, self.plain, side, self.noise or REPEATS)

    def plain_again(self, *, perturbed: bool = False) -> Side:
        """Another process of the plain script, or of the recipe that the search began with."""
        on = {name: dict(values) for name, values in self.plain.setting.techniques.items()}
        return self.races.side(on, perturbed=perturbed)

    def knows_noise(self, found: Noise | None) -> None:
        """Take what an A/A test has shown into account."""
        self.noise = self.noise.after(found) if self.noise and found else self.noise or found
        if self.noise is not None:
            self.result.deterministic = self.noise.deterministic
            self.result.repeated_steps = self.noise.repeats

    def lost(self, side: Side) -> bool:
        """Whether it is known by now that its training is another one."""
        return self.noise is not None and self.parity_with_plain(side).lost


def expected_gain(found: Estimate, expected: float = 0.0) -> float:
    """The gain to expect of what has been raced, zero where it is none: the mean of log(ratio)+.

    The interval spans two standard errors each way; before it, gains are taken to be normal about
    zero, and to spread by what the profile lets expect, by `GAINS_SD` at the least.
    """
    gains = max(GAINS_SD, expected)
    if not 0 < found.low < found.high < math.inf:
        return gains * NormalDist().pdf(0.0)
    error = math.log(found.high / found.low) / 4
    known = gains**2 / (gains**2 + error**2)
    mean, sd = known * math.log(found.ratio), math.sqrt(known) * error
    normal = NormalDist(mean, sd)
    return mean * (1 - normal.cdf(0.0)) + sd**2 * normal.pdf(0.0)
