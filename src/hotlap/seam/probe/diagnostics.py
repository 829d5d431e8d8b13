"""Steps that are run to learn rather than to be timed: operations, memory, modules, variables.

Each begins at one step's end and ends at the next one's. A failure in them is written down and the
step goes on; programs that Dynamo compiled are left alone, since the probes would recompile them.
"""

from collections.abc import Callable
from typing import Any

import torch

from hotlap.memory.owners import Storages, owners
from hotlap.memory.saved import watching
from hotlap.model.flops import FlopCount
from hotlap.seam.probe.creep import Creep
from hotlap.seam.probe.diagnosis import Diagnosis, Followed, OwnModeError
from hotlap.seam.probe.invariants import Invariants
from hotlap.seam.probe.layers import Layers
from hotlap.seam.probe.models import anything_compiled
from hotlap.seam.probe.operators import Operators
from hotlap.seam.probe.sights import Sights


class Saved:
    """Counts the tensors that autograd saves for the backward pass: the activations.

    `total` is the most that was saved between two backward passes, so that micro-batches and
    models that take turns are not added up.
    """

    def __init__(self, known: Storages, backwards: Callable[[], int]) -> None:
        self.total = 0
        self._known = known
        self._backwards = backwards
        self._turn = backwards()
        self._seen = known.copy()
        self._sum = 0
        self._hooks = watching(self._pack)

    def _pack(self, tensor: torch.Tensor) -> torch.Tensor:
        if self._turn != self._backwards():
            self._turn = self._backwards()
            self._seen, self._sum = self._known.copy(), 0
        self._sum += self._seen.add(tensor)
        self.total = max(self.total, self._sum)
        return tensor

    def __enter__(self) -> "Saved":
        self._hooks.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._hooks.__exit__(None, None, None)


TRIES = 3
MORE = 10
"""Steps that variables are looked at beyond the other diagnoses, where two looks do not tell."""
SLOW = "its steps are too slow for the time given"
Round = tuple[Diagnosis, ...]
COMPILED = "the program is compiled, and the probe would make it compile again"


class CountFlops(Diagnosis):
    """Floating-point operations of matrix products and convolutions in a step."""

    name = "flops"

    def begin(self) -> None:
        """Enter the counting mode."""
        self._count = FlopCount()
        self.enter(self._count)

    def end(self) -> None:
        """Leave it."""
        self.leave()
        self.value = self._count.total
        if self._count.failed:
            self.value, self.note = None, self._count.failed


class MemoryByOwner(Diagnosis):
    """Bytes by owner; the activations are the most that was saved in the step."""

    name = "memory"

    def begin(self) -> None:
        """Count what stays, then watch what autograd saves."""
        rec = self.rec
        found, storages = owners(rec.session.roots.found, list(rec.optimizers))
        self._found = found
        self._saved = Saved(storages, lambda: rec.timeline.backwards)
        self._saved.__enter__()
        rec.timeline.watch_memory(on=True)

    def end(self) -> None:
        """Stop watching."""
        self._saved.__exit__()
        self.rec.timeline.watch_memory(on=False)
        self.value = {**self._found, "activations": self._saved.total}


class Diagnostics:
    """Runs the diagnoses: some in the same step, the others one after the other."""

    def __init__(self, rec: Followed) -> None:
        self._rec = rec
        self._creep, self._invariants = Creep(rec), Invariants(rec)
        self._along: Round = (self._creep, self._invariants)
        self._todo: list[Round] = [
            (CountFlops(rec), Operators(rec)),
            (MemoryByOwner(rec), Sights(rec)),
        ]
        if rec.options.layers:
            self._todo.append((Layers(rec),))
        self.all = [*self._along, *(one for round_ in self._todo for one in round_)]
        self._now: Round = ()
        self._done: list[Diagnosis] = []
        self._tries = 0
        self._lasted = 0
        self.steps = 0
        self._settling = True
        self._more = MORE

    def busy(self) -> bool:
        """Whether the step that has just ended, or the next, is not to be timed."""
        return bool(self._now or self._todo) or self._settling

    def start(self) -> None:
        """The warm-up's last step is over: the next step is the first diagnostic one."""
        if anything_compiled() or self._rec.facts.values.get("compiled"):
            for diagnosis in self.all:
                diagnosis.note = COMPILED
            self._todo = []
            self._settling = False
        else:
            for diagnosis in self._along:
                self._guard(diagnosis, diagnosis.begin)
            self._begin()

    def step(self, *, evaluated: bool) -> None:
        """A diagnostic step is over; one that held an evaluation is repeated."""
        self.steps += 1
        for diagnosis in self._done:
            diagnosis.leave()
        if not self._now and not self._looks_on():
            self._settling = False
            self._continue(self._invariants)
            for diagnosis in self._along:
                self._end(diagnosis)
            return
        for diagnosis in self._along:
            self._continue(diagnosis)
        if not self._now:
            return
        self._lasted += 1
        if self._lasted < max(one.lasts for one in self._now):
            for diagnosis in self._now:
                self._continue(diagnosis)
        else:
            self._next(again=evaluated)

    def looks_again(self) -> bool:
        """Whether more steps are to confirm what was found; if so, they begin now."""
        if self._invariants.note or not self._invariants.uncertain or anything_compiled():
            return False
        self._guard(self._invariants, self._invariants.begin)
        return not self._invariants.note

    def looked_again(self) -> bool:
        """One of these steps is over; whether it was the last."""
        self._guard(self._invariants, self._invariants.confirm)
        return bool(self._invariants.note) or not self._invariants.uncertain

    def _looks_on(self) -> bool:
        """Whether variables are looked at for another step."""
        more = not self._creep.note and self._creep.undecided and self._more > 0
        self._more -= more
        return more

    def _next(self, *, again: bool) -> None:
        for diagnosis in self._now:
            self._end(diagnosis)
        self._tries += 1
        if again and self._tries < TRIES:
            self._todo.insert(0, self._now)
        else:
            self._tries = 0
        self._now = ()
        self._begin()

    def _begin(self) -> None:
        self._lasted = 0
        if self._todo:
            self._now = self._todo.pop(0)
            for diagnosis in self._now:
                self._guard(diagnosis, diagnosis.begin)

    def _continue(self, diagnosis: Diagnosis) -> None:
        if not diagnosis.note:
            self._guard(diagnosis, diagnosis.between)

    def _end(self, diagnosis: Diagnosis) -> None:
        self._done.append(diagnosis)
        if not diagnosis.note:
            self._guard(diagnosis, diagnosis.end)

    def _guard(self, diagnosis: Diagnosis, act: Callable[..., object]) -> None:
        try:
            act()
        except OwnModeError as error:
            diagnosis.note = str(error)
        except Exception as error:
            diagnosis.note = repr(error)

    def abandon(self) -> None:
        """In a forked child: take out what its parent had switched on."""
        for diagnosis in self._now:
            self._end(diagnosis)
        self._now = ()
        self._guard(self._invariants, self._invariants.end)  # also where it could not begin again

    def stop(self) -> None:
        """The run is over, wherever its diagnoses stand."""
        unfinished = self._now
        self.abandon()
        for diagnosis in unfinished:
            diagnosis.value = None

    def give_up(self) -> None:
        """Steps are too slow for what is left of the diagnoses."""
        self.stop()
        if self.steps:
            self._end(self._creep)
        for diagnosis in self.all:
            if diagnosis.value is None:
                diagnosis.note = diagnosis.note or SLOW
        self._todo, self._settling = [], False

    def result(self) -> tuple[dict[str, Any], dict[str, str]]:
        """What was found, by name, and the notes on what was not."""
        notes = {d.name: d.note or "the run was too short" for d in self.all if d.value is None}
        return {d.name: d.value for d in self.all}, notes
