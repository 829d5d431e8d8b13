"""The climb: race one technique after the other against the best so far.

The worst bottleneck goes first. Each candidate is the best so far plus one technique, raced
against the best so far, which is live and settled; what gains and keeps parity becomes the new
best, and the shares of the step's phases are brought up to date, so that the next technique is
the one that can give most *now*. At the end the whole recipe is raced against the plain script on
fresh processes.
"""

import time
from dataclasses import dataclass, replace
from typing import Protocol

from hotlap.core.errors import HotlapError, TrialFailedError
from hotlap.core.machine import Machine
from hotlap.core.registry import ceilings, technique
from hotlap.core.technique import Technique
from hotlap.trial.launch import Setting
from hotlap.trial.parity import Noise, Parity, noise
from hotlap.trial.race import Rules, out_of_memory, race
from hotlap.trial.side import Side
from hotlap.trial.stats import Estimate
from hotlap.tune.budget import Budget
from hotlap.tune.candidates import Chosen, Script, Values, Wanted, phases_of, sift, values_of
from hotlap.tune.judge import judged, parity_of
from hotlap.tune.result import OUT_OF_TIME, Ceiling, Outcome, Status, TuneResult

FLOOR_SECONDS = 8.0
CEILING_SECONDS = 5.0
FINAL_PRECISION = 0.05
MEMORY_SAVERS = ("fragmentation", "activation_checkpoint")


class Watcher(Protocol):
    """Sees the search as it goes on."""

    def stage(self, text: str) -> None:
        """A new stage began."""

    def racing(self, name: str, values: Values) -> None:
        """A candidate is being started."""

    def pair(self, estimate: Estimate) -> None:
        """One more pair of blocks was run."""

    def row(self, outcome: Outcome) -> None:
        """A technique's fate is known."""


@dataclass(frozen=True)
class Orders:
    """What to search: the plain command, what is wanted, and how long it may take (seconds)."""

    setting: Setting
    wanted: Wanted
    seconds: float
    min_effect: float = 0.02
    patience: float = 120.0


class Tuner:
    """One tune. `run` fills and returns the result; Ctrl-C ends the search, not the result."""

    def __init__(self, orders: Orders, script: Script, machine: Machine, watcher: Watcher) -> None:
        self.orders = orders
        self.script = script
        self.machine = machine
        self.watcher = watcher
        self.budget = Budget(orders.seconds)
        self.result = TuneResult(orders.setting.command)
        self._live: list[Side] = []
        self.plain = self._side({})
        self.best = self.plain
        self.noise = Noise(deterministic=False, spread=())
        self._start_ups: dict[Side, float] = {}

    def run(self) -> TuneResult:
        """Search, then confirm."""
        begin = time.monotonic()
        try:
            self._floor()
            todo = self._sift()
            self._ceilings(todo)
            self._climb(todo)
            self._final()
        except KeyboardInterrupt:
            self.result.interrupted = True
        finally:
            for side in self._live:
                side.close()
            self.result.seconds = time.monotonic() - begin
        return self.result

    def _side(self, chosen: Chosen) -> Side:
        whole = any(technique(name).whole_epochs for name in chosen)
        side = Side(self.orders.setting.having(chosen), self.orders.patience, whole_epoch=whole)
        self._live.append(side)
        return side

    def _drop(self, side: Side) -> None:
        side.close()
        self._live = [other for other in self._live if other is not side]

    def _rules(self, seconds: float, **more: object) -> Rules:
        rules = Rules(min_effect=self.orders.min_effect, seconds=seconds)
        return replace(rules, **more)  # type: ignore[arg-type]

    def _floor(self) -> None:
        """Race the plain script against itself: how noisy the machine, how repeatable the run."""
        self.watcher.stage("the script against itself")
        self._start_plain()
        again = self._side(dict(self.plain.setting.techniques))  # type: ignore[arg-type]
        rules = self._rules(min(FLOOR_SECONDS, 0.08 * self.orders.seconds))
        self.result.floor = race(self.plain, again, rules, self.watcher.pair)
        self.noise = noise(self.plain.losses, again.losses)
        self.result.deterministic = self.noise.deterministic
        self._drop(again)

    def _start_plain(self) -> None:
        """Settle the plain script; where it runs out of memory, find what makes it fit."""
        begin = time.monotonic()
        try:
            self.plain.ready()
        except TrialFailedError as error:
            if not out_of_memory(str(error)):
                raise
            self._make_it_fit(error)
        self.budget.start_up = time.monotonic() - begin
        self.budget.pair = 2 * self.plain.ready().block_seconds

    def _make_it_fit(self, error: TrialFailedError) -> None:
        self._drop(self.plain)
        known = [name for name in MEMORY_SAVERS if not technique(name).missing(self.script.facts)]
        chosen: Chosen = {name: values_of(technique(name), self.machine)[0] for name in known}
        self.plain = self.best = self._side(chosen)
        self.plain.ready()
        self.result.notes.append(
            f"the plain script ran out of memory ({error}); everything here runs with "
            f"{' and '.join(known)} on"
        )

    def _sift(self) -> list[Technique]:
        todo, rows = sift(self.script, self.orders.wanted)
        for row in rows:
            self._tell(row)
        return todo

    def _ceilings(self, todo: list[Technique]) -> None:
        """Race what-ifs, to know what a whole group of techniques can give at most."""
        open_phases = {phase for record in todo for phase in phases_of(record)}
        for name, record in ceilings().items():
            small = self.script.share(record) < self.orders.min_effect
            if small or record.missing(self.script.facts):
                continue
            if open_phases.isdisjoint(phases_of(record)):
                continue
            self.watcher.stage(record.title)
            side = self._side({name: {}})
            try:
                found = race(
                    self.best, side, self._rules(CEILING_SECONDS, precision=0.1), self.watcher.pair
                )
            except TrialFailedError as error:
                self.result.ceilings.append(Ceiling(name, record.title, None, str(error)))
                continue
            finally:
                self._drop(side)
            self.result.ceilings.append(Ceiling(name, record.title, found.estimate))
            for phase in phases_of(record):
                self.script.ceilings[phase] = max(found.estimate.high, 1.0)

    def _climb(self, todo: list[Technique]) -> None:
        while todo:
            todo.sort(key=self.script.promise, reverse=True)
            head = todo.pop(0)
            refusal = self._refused_now(head)
            if refusal is not None:
                self._tell(refusal)
                continue
            rivals = [t for t in todo if t.id in head.conflicts and not self._refused_now(t)]
            todo = [t for t in todo if t not in rivals]
            self._contest([head, *rivals], len(todo) + 1)

    def _refused_now(self, record: Technique) -> Outcome | None:
        """Why a technique is not raced after all, with what is kept by now."""
        clash = next((name for name in self.chosen if name in record.conflicts), "")
        if clash:
            reason = f"conflicts with {clash}, which is kept"
            return Outcome(record.id, Status.NOT_RACED, reason)
        if any(record.id in row.joined for row in self.result.kept):
            return Outcome(record.id, Status.NOT_RACED, "already on, together with another")
        bound = self.script.bound(record)
        named = record.id in {*self.orders.wanted.only, *self.orders.wanted.requested}
        if record.symptom and not named and bound < 1.0 + self.orders.min_effect:
            share = " and ".join(record.symptom.phases)
            reason = f"{share} can give {bound:.2f}x at most"
            return Outcome(record.id, Status.NOT_RACED, reason)
        if not self.budget.allows_another():
            return Outcome(record.id, Status.NOT_RACED, OUT_OF_TIME)
        return None

    def _contest(self, rivals: list[Technique], remaining: int) -> None:
        """Race techniques that exclude one another, with all their values; keep the best."""
        entries = [(t, v) for t in rivals for v in self._values(t)]
        winner: tuple[Outcome, Side] | None = None
        for index, (record, values) in enumerate(entries):
            if index and not self.budget.allows_another():
                self._tell(Outcome(record.id, Status.NOT_RACED, OUT_OF_TIME, values))
                continue
            row, side = self._try(record, values, remaining + len(entries) - index)
            if row.status is Status.KEPT and (winner is None or _ratio(row) > _ratio(winner[0])):
                if winner is not None:
                    self._beaten(*winner)
                winner = row, side
            elif row.status is Status.KEPT:
                self._beaten(row, side)
            else:
                self._drop(side)
                self._tell(row)
        if winner is not None:
            self._keep(*winner)

    def _values(self, record: Technique) -> list[Values]:
        """Its values, less those the script has already."""
        facts = self.script.facts.items()
        return [v for v in values_of(record, self.machine) if not v or not v.items() <= facts]

    def _beaten(self, row: Outcome, side: Side) -> None:
        self._drop(side)
        self._tell(replace(row, status=Status.NO_GAIN, reason="another choice gave more"))

    def _try(self, record: Technique, values: Values, remaining: int) -> tuple[Outcome, Side]:
        """Race the best so far plus one technique against the best so far."""
        self.watcher.racing(record.id, values)
        joined = self._joined(record)
        chosen: Chosen = {**self.chosen, **joined, record.id: values}
        side = self._side(chosen)
        begin = time.monotonic()
        rules = self._rules(self.budget.for_race(remaining), until_gain=True)
        try:
            side.ready()
            start_up = time.monotonic() - begin
            found = race(self.best, side, rules, self.watcher.pair)
        except HotlapError as error:
            self.best.ready()
            return Outcome(record.id, Status.CRASHED, str(error), values), side
        row = Outcome(
            record.id, Status.KEPT, "", values, found, self._parity(chosen, side), tuple(joined)
        )
        self._start_ups[side] = start_up
        return judged(row, side), side

    def _parity(self, chosen: Chosen, side: Side) -> Parity:
        return parity_of(chosen, self.plain.losses, side.losses, self.noise)

    def _joined(self, record: Technique) -> Chosen:
        """The techniques it is raced together with, where the script lacks what they give."""
        on = self.chosen
        return {
            name: values_of(technique(name), self.machine)[-1]
            for name in record.joins
            if name not in on and not technique(name).missing(self.script.facts)
        }

    @property
    def chosen(self) -> Chosen:
        """The techniques of the best so far, with their values."""
        return {name: dict(values) for name, values in self.best.setting.techniques.items()}

    def _keep(self, row: Outcome, side: Side) -> None:
        assert row.race is not None
        if self.best is not self.plain:
            self._drop(self.best)
        else:
            self.plain.close()
        self.best = side
        self.budget.start_up = max(self.budget.start_up, self._start_ups.get(side, 0.0))
        self.script.ceilings = {}  # they were measured on what was the best before
        kept = [technique(name) for name in (*row.joined, row.technique)]
        self.script.keep(kept, row.race.estimate.ratio)
        self._tell(row)

    def _tell(self, row: Outcome) -> None:
        self.result.outcomes.append(row)
        self.watcher.row(row)

    def _final(self) -> None:
        """The whole recipe against the plain script, both from fresh processes."""
        if not self.result.kept:
            return
        self.watcher.stage("the whole recipe against the plain script")
        chosen = self.chosen
        self.best.close()
        self.plain.close()
        tuned = self._side(chosen)
        rules = self._rules(self.budget.for_final(), precision=FINAL_PRECISION)
        self.result.final = race(self.plain, tuned, rules, self.watcher.pair)
        self.result.final_parity = self._parity(chosen, tuned)


def _ratio(row: Outcome) -> float:
    return row.race.estimate.ratio if row.race is not None else 0.0
