"""The processes that are live during a tune, the races between them, and what a race decides."""

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from operator import attrgetter
from typing import Protocol

from hotlap.core.errors import NotReachedError, TrialFailedError
from hotlap.core.registry import technique
from hotlap.core.technique import Numerics
from hotlap.trial.launch import SLEEPING_IN_MOST, SLEEPING_THREADS, Setting, threading_variables
from hotlap.trial.load import BusyWatch, OtherPrograms
from hotlap.trial.parity import FEWEST as FEWEST_STEPS
from hotlap.trial.parity import Noise, Parity, compare, compare_outputs, noise, not_finite
from hotlap.trial.race import Evidence, RaceResult, race
from hotlap.trial.side import Side
from hotlap.trial.stats import Estimate, Verdict
from hotlap.trial.stopping import StoppingRules, StopReason
from hotlap.trial.switched import race_switched
from hotlap.tune.candidates import (
    Chosen,
    Values,
    left_out,
    occasion,
    once_an_epoch,
    steps_to_act,
)
from hotlap.tune.result import Outcome, ProcessTimes, Status, TimeUse

LOADED_CORES = 0.5
"""Cores used by other programs from which a load-dependent technique is not put into a recipe."""


NOT_REPEATED = "a gain at first, which fresh pairs did not repeat"
NO_VERDICT = "no verdict within its time"
NO_WHOLE_EPOCHS = "the time did not hold races of whole epochs, and plain steps do not show it"
SWITCHED_LEAST_SECONDS = 4.0
"""Of a race in a live process: its pairs are short, and few of them tell little."""
PAIRS_IN_ANY_CASE = 3
"""Pairs that are run however long they take. A verdict needs more, a budget must not be overrun."""


class Watcher(Protocol):
    """Sees the search as it goes on."""

    def stage(self, text: str) -> None:
        """A new stage began."""

    def note(self, text: str) -> None:
        """Something to know from now on."""

    def candidates(self, names: Sequence[str]) -> None:
        """These are waiting to be raced, in this order."""

    def racing(self, name: str, values: Values) -> None:
        """A candidate is being started."""

    def pair(self, estimate: Estimate) -> None:
        """One more pair of blocks was run."""

    def outcome(self, outcome: Outcome) -> None:
        """What became of a technique is known."""


class Races:
    """Launches the command with techniques on, races two of them, and ends what is live.

    Once the machine is busy, processes are launched with OpenMP threads that sleep while they wait,
    as a race on a busy machine asks for; else it would have to launch them again. `notes` say what
    holds of all its races.
    """

    def __init__(self, setting: Setting, patience: float, min_effect: float, watcher: Watcher):
        self._busy = BusyWatch()
        self._setting = setting
        self._patience = patience
        self._min_effect = min_effect
        self._watcher = watcher
        self._deadline = math.inf
        self._live: list[Side] = []
        self._ahead: list[Side] = []
        self._others = OtherPrograms()
        self._pairs_at: list[float] = []
        self._racing = 0.0
        self._past: list[Side] = []
        self.notes: list[str] = []
        self._said: set[str] = set()

    @property
    def busy(self) -> bool:
        """Whether other programs want the cores, or did since the tune began."""
        return self._busy.now()

    def count_calls(self) -> None:
        """The program does not train: from its first root call on, each is a step."""
        self._setting = self._setting.counting(inference=True)

    def give_until(self, deadline: float) -> None:
        """From now on no process is waited for beyond that moment (of `time.monotonic`)."""
        self._deadline = deadline
        for side in self._live:
            side.deadline = deadline

    def side(
        self,
        chosen: Chosen,
        patience: float = 0.0,
        *,
        perturbed: bool = False,
        spinning: bool = False,
    ) -> Side:
        """The command with these techniques on; it is launched when it is first needed.

        `perturbed`: with an input changed by one unit in the last place, to see what becomes of it.
        `spinning`: with threads that wait as the user's do, however busy the machine is.
        """
        setting = self._setting.having(chosen)
        if perturbed:
            setting = setting.perturbed()
        for side in self._ahead:
            if side.setting == setting and not spinning:
                self._ahead.remove(side)
                return side
        whole = any(technique(name).whole_epochs for name in chosen)
        no_epoch = any(side.pace is not None and not side.pace.epoch for side in self._live)
        side = Side(
            setting, patience or self._patience, whole,
            epochs=not no_epoch,  # both sides of a race need to have the same
            passive_wait=not spinning and self.busy
            and "OMP_WAIT_POLICY" not in threading_variables(setting),
            deadline=self._deadline,
        )  # fmt: skip
        self._live.append(side)
        return side

    def launch_ahead(
        self, chosen: Chosen, patience: float = 0.0, *, perturbed: bool = False
    ) -> None:
        """Launch what will be needed next: it starts while others do, and stands still in races.

        Its own failure is reported when it is raced.
        """
        side = self.side(chosen, patience, perturbed=perturbed)
        side.start()
        self._ahead.append(side)

    def is_launched(self, chosen: Chosen, *, perturbed: bool = False) -> bool:
        """Whether a process with these techniques was launched ahead."""
        setting = self._setting.having(chosen)
        wanted = setting.perturbed() if perturbed else setting
        return any(side.setting == wanted for side in self._ahead)

    @property
    def launched_ahead(self) -> bool:
        """Whether anything was launched before it is needed."""
        return bool(self._ahead)

    def hold_ahead(self) -> None:
        """Let what was launched ahead stand still, wherever it is: no race waits for a compiler."""
        for side in self._ahead:
            side.hold()

    def drop_ahead(self) -> None:
        """What was launched ahead is not needed after all."""
        for side in tuple(self._ahead):
            self._ahead.remove(side)
            self.drop(side)

    def drop(self, side: Side) -> None:
        """A side is not needed any more."""
        side.close()
        self._live = [other for other in self._live if other is not side]
        self._past.append(side)

    def race(
        self, a: Side, b: Side, seconds: float, evidence: Evidence | None = None, **more: object
    ) -> RaceResult:
        """Race B against A for at most so many seconds; `more` are further stopping rules.

        `evidence`: of earlier races of the two, from which this one goes on.

        Should it be A that fails, which has run well before, it is started once more.

        Raises:
            TrialFailedError: B failed, or A a second time.
            TimeOverError: the deadline came before the first pair.
            NotReachedError: no step of B was seen in time, or of A a second time.
        """
        rules = self._rules(seconds, more)
        try:
            return self._timed_race(a, b, rules, evidence)
        except (TrialFailedError, NotReachedError) as error:
            if not _not_its_fault(a, b):
                raise
            self._watcher.stage(f"the reference failed ({error}) and is started again")
        return self._timed_race(a, b, rules, evidence)

    def race_switched(
        self, side: Side, also: Chosen, seconds: float, evidence: Evidence | None, **more: object
    ) -> RaceResult:
        """Race a side with techniques switched on against itself, like `race`."""
        rules = self._rules(seconds, more)
        epoch = side.ready().epoch > 0
        rules = replace(
            rules, share_epoch=rules.plain_steps and epoch, least_seconds=SWITCHED_LEAST_SECONDS
        )
        with self._counted(side):
            found = race_switched(
                side, also, rules, self._on_pair, busy=self.busy, evidence=evidence
            )
        self._note_race(side, found)
        return found

    def _rules(self, seconds: float, more: Mapping[str, object]) -> StoppingRules:
        """The rules of a race that begins now."""
        self.hold_ahead()
        self._pairs_at = []
        plain = StoppingRules(self._min_effect, seconds=seconds, fewest_pairs=PAIRS_IN_ANY_CASE)
        return replace(plain, **more)  # type: ignore[arg-type]

    @contextmanager
    def _counted(self, *sides: Side) -> Iterator[None]:
        """Count what is inside as time of racing, but for what starting the sides takes."""
        begin, starting = time.monotonic(), sum(side.starting for side in sides)
        try:
            yield
        finally:
            started = sum(side.starting for side in sides) - starting
            self._racing += time.monotonic() - begin - started

    def _timed_race(
        self, a: Side, b: Side, rules: StoppingRules, evidence: Evidence | None
    ) -> RaceResult:
        with self._counted(a, b):
            found = race(a, b, rules, self._on_pair, busy=self.busy, evidence=evidence)
        self._note_race(a, found)
        return found

    def _note_race(self, a: Side, found: RaceResult) -> None:
        """Say what holds of a race that is over."""
        if found.passive_wait:
            self._note("threads", SLEEPING_THREADS, live=SLEEPING_IN_MOST)
        if not a.setting.techniques:
            self._note("losses", not_finite(a.losses))

    def _note(self, about: str, note: str, live: str = "") -> None:
        """Say it, once; nothing where it is empty. `live`: its words while races are to come."""
        if note and about not in self._said:
            self._said.add(about)
            self.notes.append(note)
            self._watcher.note(live or note)

    def time_use(self, begin: float, profiling: float) -> TimeUse:
        """Where the seconds since a moment went; `profiling` of them before the first race."""
        sides, whole = [*self._past, *self._live], time.monotonic() - begin
        starting = sum(side.starting for side in sides)
        processes = [
            ProcessTimes(
                tuple(side.setting.techniques), launch.begun - begin,
                launch.ready - begin if launch.ready else None,
                (launch.ended or time.monotonic()) - begin, launch.raced,
            )
            for side in sides
            for launch in side.log
        ]  # fmt: skip
        return TimeUse(
            profiling=profiling,
            starting=starting,
            racing=self._racing,
            other=max(0.0, whole - profiling - starting - self._racing),
            processes=tuple(sorted(processes, key=lambda one: one.launched)),
        )

    def _on_pair(self, estimate: Estimate) -> None:
        self._pairs_at.append(time.monotonic())
        self._watcher.pair(estimate)

    @property
    def pair_seconds(self) -> float:
        """What a pair of the last race took, by the median; 0 where there were too few."""
        gaps = sorted(b - a for a, b in pairwise(self._pairs_at))
        return gaps[len(gaps) // 2] if gaps else 0.0

    def other_load(self) -> float:
        """CPU cores that other programs used on average since the tune began."""
        return self._others.cores()

    def close(self) -> None:
        """End whatever is live."""
        for side in self._live:
            side.close()


def _not_its_fault(a: Side, b: Side) -> bool:
    """Whether it was not B's techniques that made a race fail: A failed, or both are the same."""
    same = a.setting.techniques == b.setting.techniques
    return same or (a.trial is None and b.trial is not None)


def judged(row: Outcome, side: Side) -> Outcome:
    """A raced row with its status: it must have been applied, have kept parity, and be faster."""
    assert row.race is not None
    assert row.parity is not None
    if row.technique not in side.held or _left_out(row, side):
        return _not_applied(row, side)
    if not row.parity.kept:
        unknown = row.parity.steps < FEWEST_STEPS or row.parity.unclear
        status = Status.INCONCLUSIVE if unknown else Status.BROKE_PARITY
        return replace(row, status=status, reason=row.parity.reason)
    if row.race.verdict is not Verdict.FASTER:
        return not_kept(row, row.race)
    found = passing(row)
    return found if found.reason else replace(row, status=Status.KEPT, reason=row.parity.reason)


def passing(row: Outcome) -> Outcome:
    """A faster row with its status, where the gain depends on a load that may pass; else as it is.

    No recipe keeps it.
    """
    if not (technique(row.technique).load_dependent and row.load > LOADED_CORES):
        return row
    if row.unrepeated:
        return replace(row, status=Status.INCONCLUSIVE, reason=NOT_REPEATED)
    reason = (
        f"faster while other programs used {row.load:.1f} cores, which may not last: not "
        "written; race it again when they are gone"
    )
    return replace(row, status=Status.LOAD_DEPENDENT, reason=reason)


def _left_out(row: Outcome, side: Side) -> bool:
    """Whether plain steps were raced of what acts, or costs, in the steps that they leave out."""
    if row.race is None or row.race.unit != "step" or row.race.epoch_shared:
        return False
    names = (row.technique, *row.joined)
    return left_out(names, side.epoch_steps, workers=side.has_workers)


def inert(row: Outcome, side: Side) -> str:
    """Why it changes nothing, where it would have taken hold by now; empty where it did, or may."""
    record = technique(row.technique)
    needed = occasion(record)
    if row.technique in side.held:
        return ""
    if row.technique in side.inert:
        return side.inert[row.technique]
    happened = side.happened[needed.kind] >= needed.times if needed else True
    happened &= max(side.at, side.ends_after) >= steps_to_act(record)
    return "it found nothing to change in this script" if happened else ""


def _not_applied(row: Outcome, side: Side) -> Outcome:
    """It changed nothing: there was nothing to change, or what it changes did not happen."""
    if row.technique in side.held:
        seen = None if once_an_epoch(row.technique) else row.race
        return replace(row, status=Status.INCONCLUSIVE, reason=NO_WHOLE_EPOCHS, race=seen)
    if reason := inert(row, side):
        return replace(row, status=Status.NOT_APPLICABLE, reason=reason)
    needed = occasion(technique(row.technique))
    lacking = needed.lacking if needed is not None else "too few steps ran"
    reason = f"{lacking} while it was raced"
    return replace(row, status=Status.INCONCLUSIVE, reason=reason, race=None)


def not_kept(row: Outcome, found: RaceResult) -> Outcome:
    """A raced row that was not faster, with its status."""
    if found.verdict is Verdict.SLOWER:
        return replace(row, status=Status.NOT_FASTER, reason="slower")
    if found.not_faster:
        return replace(row, status=Status.NOT_FASTER, reason="at most the same")
    if found.verdict is Verdict.SAME:
        reason = f"within {StoppingRules.same_within:.0%} of one another"
        return replace(row, status=Status.SAME, reason=reason)
    futile = found.stopped is StopReason.FUTILE
    reason = "stopped early: its time did not suffice for a verdict" if futile else NO_VERDICT
    return replace(
        row, status=Status.INCONCLUSIVE, reason=reason, seconds_needed=found.seconds_needed
    )


def noise_of(plain: Side, again: Side) -> Noise | None:
    """How a script differs from itself; None where too little of both runs can be compared."""
    if not plain.outputs:
        return noise(plain.losses, again.losses, perturbed=again.data.perturbed)
    same = compare_outputs(plain.outputs, again.outputs, Numerics.EXACT)
    return Noise(same.kept, ()) if same.steps >= FEWEST_STEPS else None


def parity_of(chosen: Iterable[str], plain: Side, tuned: Side, noise: Noise) -> Parity:
    """Whether the training is the same, by the widest numerics class of what is on."""
    records = [technique(name) for name in chosen]
    width = attrgetter("width")
    numerics = max((r.numerics for r in records), key=width, default=Numerics.EXACT)
    if plain.outputs:
        if not noise.deterministic:  # equal bits are not even what the program itself gives
            numerics = max(numerics, Numerics.ROUNDING, key=width)
        return compare_outputs(plain.outputs, tuned.outputs, numerics)
    layout = any(record.layout_sensitive for record in records)
    data = (plain.data, tuned.data) if layout else None
    return compare(plain.losses, tuned.losses, numerics, noise, data)
