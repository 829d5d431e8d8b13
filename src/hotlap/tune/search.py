"""The climb: race one technique after the other against the best so far.

The worst bottleneck goes first. Each candidate is the best so far plus one technique, raced
against the best so far, which is live and settled; what gains and keeps parity becomes the new
best, and the shares of the step's phases are brought up to date, so that the next technique is
the one that can give most *now*. At the end the whole recipe is raced against the plain script on
fresh processes.
"""

import time
from dataclasses import replace

from hotlap.core.errors import HotlapError
from hotlap.core.machine import Machine
from hotlap.core.registry import technique
from hotlap.core.technique import Technique
from hotlap.trial.parity import Noise, Parity
from hotlap.trial.side import Side
from hotlap.tune.baseline import floor, started, what_ifs
from hotlap.tune.candidates import Chosen, Script, Values, sift, values_of
from hotlap.tune.field import Field
from hotlap.tune.judge import judged, parity_of
from hotlap.tune.orders import Orders, Watcher
from hotlap.tune.result import OUT_OF_TIME, Outcome, Status, TuneResult

FINAL_PRECISION = 0.05


class Tuner:
    """One tune. `run` fills and returns the result; Ctrl-C ends the search, not the result."""

    def __init__(self, orders: Orders, script: Script, machine: Machine, watcher: Watcher) -> None:
        self.orders = orders
        self.script = script
        self.machine = machine
        self.watcher = watcher
        self.field = Field(orders, watcher)
        self.budget = self.field.budget
        self.result = TuneResult(orders.setting.command)
        self.plain = self.best = self.field.side({})
        self.noise = Noise(deterministic=False, spread=())
        self._tried = 0

    def run(self) -> TuneResult:
        """Search, then confirm."""
        begin = time.monotonic()
        try:
            self._search()
        except KeyboardInterrupt:
            self.result.interrupted = True
        finally:
            self.field.close()
            self.result.seconds = time.monotonic() - begin
        return self.result

    def _search(self) -> None:
        self.plain = self.best = started(
            self.field, self.plain, self.script, self.machine, self.result
        )
        todo = self._sift()
        if not self._suffices(todo):
            return
        self.noise = floor(self.field, self.plain, self.result)
        if not self.budget.tight:
            what_ifs(self.field, self.best, self.script, todo, self.result)
        self._climb(todo)
        self._final()

    def _sift(self) -> list[Technique]:
        todo, rows = sift(self.script, self.orders.wanted)
        for row in rows:
            self._tell(row)
        return sorted(todo, key=self.script.promise, reverse=True)

    def _suffices(self, todo: list[Technique]) -> bool:
        """Whether the time allows a race of the most valuable candidate; if not, say what would."""
        head = self._head(todo)
        if head is None or self.budget.suffices(self.script.promise(head)):
            return True
        needed = self.result.needed = self.budget.needed(self.budget.one)
        self.watcher.stage(
            f"{self.budget.seconds:.0f} s are too short to race anything: "
            f"{head.id} alone takes about {needed:.0f} s"
        )
        for record in todo:
            self._tell(self._pointless(record) or _out_of_time(record))
        return False

    def _head(self, todo: list[Technique]) -> Technique | None:
        """The most valuable of those that something can come of."""
        hopeful = (t for t in todo if not self._pointless(t))
        return max(hopeful, key=self.script.promise, default=None)

    def _climb(self, todo: list[Technique]) -> None:
        if head := self._head(todo):
            self.budget.pressed(self.script.promise(head))
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
        if left_out := sum(row.reason == OUT_OF_TIME for row in self.result.outcomes):
            more = left_out * self.budget.another
            self.result.needed = self.budget.needed(
                max(self.budget.reserve, self.budget.left) + more
            )

    def _refused_now(self, record: Technique) -> Outcome | None:
        """Why a technique is not raced after all, with what is kept by now."""
        if refusal := self._pointless(record):
            return refusal
        return None if self._in_time() else _out_of_time(record)

    def _pointless(self, record: Technique) -> Outcome | None:
        """Why nothing could come of a race: it clashes, it is on, or it has too little to give."""
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
        return None

    def _in_time(self) -> bool:
        """Whether one more can be raced; the first was promised where the time is tight."""
        return self.budget.allows_another() or (self.budget.tight and not self._tried)

    def _contest(self, rivals: list[Technique], remaining: int) -> None:
        """Race techniques that exclude one another, with all their values; keep the best."""
        entries = [(t, v) for t in rivals for v in self._values(t)]
        winner: tuple[Outcome, Side] | None = None
        for index, (record, values) in enumerate(entries):
            if not self._in_time():
                self._tell(_out_of_time(record, values))
                continue
            row, side = self._try(record, values, remaining + len(entries) - index)
            if row.status is Status.KEPT and (winner is None or _ratio(row) > _ratio(winner[0])):
                if winner is not None:
                    self._beaten(*winner)
                winner = row, side
            elif row.status is Status.KEPT:
                self._beaten(row, side)
            else:
                self.field.drop(side)
                self._tell(row)
        if winner is not None:
            self._keep(*winner)

    def _values(self, record: Technique) -> list[Values]:
        """Its values, less those the script has already."""
        facts = self.script.facts.items()
        return [v for v in values_of(record, self.machine) if not v or not v.items() <= facts]

    def _beaten(self, row: Outcome, side: Side) -> None:
        self.field.drop(side)
        self._tell(replace(row, status=Status.NO_GAIN, reason="another choice gave more"))

    def _try(self, record: Technique, values: Values, remaining: int) -> tuple[Outcome, Side]:
        """Race the best so far plus one technique against the best so far."""
        self.watcher.racing(record.id, values)
        self._tried += 1
        joined = self._joined(record)
        chosen: Chosen = {**self.chosen, **joined, record.id: values}
        side = self.field.side(chosen)
        seconds = self.budget.for_race(remaining)
        try:
            side.ready()
            found = self.field.race(
                self.best, side, seconds, until_gain=True,
                seconds_if_promising=self.budget.for_gain(), launches=self.budget.launches,
            )  # fmt: skip
        except HotlapError as error:
            self.best.ready()
            return Outcome(record.id, Status.CRASHED, str(error), values), side
        row = Outcome(
            record.id, Status.KEPT, "", values, found, self._parity(chosen, side), tuple(joined)
        )
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
            self.field.drop(self.best)
        else:
            self.plain.close()
        self.best = side
        self.budget.kept(side.start_up, side.ready_pace().block_seconds)
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
        tuned = self.field.side(chosen)
        seconds = self.budget.for_final()
        self.result.final = self.field.race(self.plain, tuned, seconds, precision=FINAL_PRECISION)
        self.result.final_parity = self._parity(chosen, tuned)


def _out_of_time(record: Technique, values: Values | None = None) -> Outcome:
    return Outcome(record.id, Status.NOT_RACED, OUT_OF_TIME, values or {})


def _ratio(row: Outcome) -> float:
    return row.race.estimate.ratio if row.race is not None else 0.0
