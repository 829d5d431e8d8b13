"""Counts the steps of a profiled run: warm-up, diagnostic steps, timed steps, the end."""

import math
import os
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from time import perf_counter_ns

import torch
from torch.optim.optimizer import Optimizer

from hotlap.core.protocol import ProfileOptions, decode
from hotlap.core.trainers import trainer_of
from hotlap.seam.gate import thread_times
from hotlap.seam.inference import InferenceSteps
from hotlap.seam.participant import Participant
from hotlap.seam.probe.calls import Calls
from hotlap.seam.probe.diagnostics import Diagnostics
from hotlap.seam.probe.facts import Facts, idle_groups
from hotlap.seam.probe.loaders import Known, Loaders
from hotlap.seam.probe.padded import Padded
from hotlap.seam.probe.phases import RESTING, Marks, from_first_phase, name_of
from hotlap.seam.probe.resources import Resources
from hotlap.seam.probe.rest import Rest
from hotlap.seam.probe.sampler import Moment, Sampler, resident_memory
from hotlap.seam.probe.spread import Spread
from hotlap.seam.probe.tally import Tally
from hotlap.seam.probe.timeline import Timeline
from hotlap.seam.probe.waits import Waits
from hotlap.seam.process import rank_and_world, serves_its_parent
from hotlap.seam.steps import Cycle
from hotlap.seam.where import modules

NOBODY = -1
MOST_UNTIMED_SECONDS = 10.0
"""What warm-up and diagnoses may take where the timed steps have no longer: of slow steps fewer are
left out, and what one step in a diagnosis would have shown stays unknown."""
LEAST_SECONDS = 2.0
"""What follows the first step in any case: of a program that starts late, its first step alone
would show nothing but the start."""
EVERY = 16
FOREVER = 1 << 62
READ_AHEAD = 0.1
"""By how much the samples that a loader gave may be more than those that the model was called for.
"""
POOL_COMPUTES = 0.1
"""Part of the CPU time that torch's other threads must use for their waits to count."""


class Recorder:
    """What is known of the run so far. Only the thread `thread` is followed."""

    def __init__(self, session: Participant, timeline: Timeline) -> None:
        self.options = options = decode(ProfileOptions, session.spec.options)
        self.session = session
        self.timeline = timeline
        self.thread = threading.main_thread().ident or NOBODY
        self.facts = Facts()
        self.inference = InferenceSteps(session, lambda: self.facts.note("inference"))
        self.calls = Calls()
        self.generation = Calls()
        self.spread = Spread()
        self.waits = Waits()
        self._passed = 0
        self._forget_steps()
        self.rest = Rest()
        self.sampler = Sampler(lambda: self.thread, self.now, self.rest)
        self.diagnostics = Diagnostics(self)
        self.resources = Resources(faults_only=not options.dataset)
        self.deadline = int(1e9 * options.until) if options.until else FOREVER
        self.root: torch.nn.Module | None = None
        self.loaders = Loaders()
        self.made: weakref.WeakKeyDictionary[torch.nn.Module, str] = weakref.WeakKeyDictionary()
        self.warnings: dict[tuple[str, str], None] = {}
        self.feeding: Known | None = None
        self.training_loader: Known | None = None
        self.optimizers: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self.idle_groups: set[int] = set()
        self.drawn = 0
        self.samples = self.rows = self.tokens = self.counted = 0
        self._fed: tuple[weakref.ref[torch.Tensor], int] | None = None
        self.warm_samples = (0.0, 0.0)
        self.counting = True
        self.begun = False
        self.world, self.resident = 1, 0
        self.sync_calls: Counter[str] = Counter()
        self.latest: object = None
        self.while_awake: list[Callable[[bool], None]] = []
        self.at_first_step: list[Callable[[], AbstractContextManager[None]]] = []
        self.finish: Callable[[str], None] = lambda _: None
        self.at_timed_step: Callable[[], None] = lambda: None
        self._pid = os.getpid()
        self._cycle = Cycle()
        self._first = 0
        self._until = FOREVER
        self._at_least = 0
        self._rest = 0
        self._shared = False
        self._timed: tuple[dict[str, float], float] | None = None
        self._note: Callable[[Marks, bool], None] = self._warming
        self._began = self._pool_began = (0.0, 0.0)
        self._sampling = ExitStack()

    def now(self) -> Moment | None:
        """Where in a step the training thread is; None while nothing is looked at."""
        line = self.timeline
        mark, code = len(line.codes) - 1, line.codes[-1]
        if code == RESTING:
            return None
        return Moment(mark, code, name_of(code, evaluating=line.evaluations.going_on))

    def mine(self) -> bool:
        """Whether this is still the process that the recorder was made in."""
        return os.getpid() == self._pid

    def leave_alone(self) -> None:
        """From now on every boundary passes straight through, and nobody samples."""
        if threading.get_ident() == self.thread:
            self.diagnostics.stop()
        self.thread = NOBODY
        self._rest = 0
        self.rest.ask()
        self._sampling.close()

    def forked(self) -> None:
        """In a forked child (a loader's worker, most likely): mark nothing.

        Where the parent had not begun to train, the child's first step begins its own recording.
        """
        self.thread = NOBODY
        self.rest.ask()
        self.sampler.forked()
        self.diagnostics.abandon()
        if not self.begun:
            self._pid = os.getpid()
            self.timeline.evaluations.close()
            self.timeline.reopen()  # the parent may have forked within a boundary

    def child_begun(self) -> None:
        """In a child that multiprocessing has started: mark what precedes its first step too."""
        if not self.begun:
            self.thread = NOBODY if serves_its_parent() else threading.get_ident()

    @contextmanager
    def sampling_from_first_step(self) -> Iterator[None]:
        """Sample from the first optimizer step on; processes without one have no sampler."""
        with self._sampling:
            yield

    def begin(self) -> None:
        """The first optimizer step begins: its thread is the one to follow.

        `world` is known now, and `resident`: the bytes that the process holds by now.
        """
        self.begun = True
        _, self.world = rank_and_world()
        self.resident = resident_memory()
        self.facts.note("trainer", trainer_of(modules(sys._getframe(1))))
        self.thread = threading.get_ident()
        self._sampling.enter_context(self.sampler.sampling())
        for also in self.at_first_step:
            self._sampling.enter_context(also())

    def elsewhere(self, optimizer: object) -> None:
        """Another thread made an optimizer step: a rest could not tell it from the training's.

        Where threads begin to share an optimizer within a rest, that is seen at the next look.
        """
        self._shared |= optimizer is self.latest

    def fed_by(self, loader: Known | None) -> None:
        """A training call takes what this loader gave last."""
        self.training_loader = loader
        if loader is not None:
            self.loaders.use(loader)

    def turned(self, optimizer: object) -> bool:
        """An optimizer step is over; True if it ends a step of the training."""
        if optimizer is not self.latest:
            self._meet(optimizer)
        if self.rest.resting:
            self.rest.ends.append(perf_counter_ns())
            self._get_up()
            self.timeline.reopen()
            return True
        if not self._cycle.turn(optimizer):
            return False
        if self._cycle.moved_on:
            self._begin_anew()
        self.samples += self.drawn * self.counting
        self.drawn = 0
        special, first = self.timeline.evaluations.special, not self.backwards
        marks = self.timeline.close()
        self.backwards[self.timeline.backwards - self._passed] += 1
        self.sampler.settle(marks[2])
        if marks[2]:
            evaluations = self.timeline.evaluations
            if first:  # a look at what the model gives, before the training, is none yet
                self.facts.forget_graded()
                evaluations.unused_at = None
            self.facts.confirm_evaluation(evaluations.unused_at, evaluations.trained_at)
        self._note(marks, special)
        self.session.roots.step()
        if self._rest and not self.session.roots.looking:
            self._lie_down()
        else:
            self.timeline.reopen()
        self._passed = self.timeline.backwards
        return True

    def _meet(self, optimizer: object) -> None:
        """Another optimizer than the last one makes a step."""
        self.latest = optimizer
        if not isinstance(optimizer, Optimizer):  # parameters are updated by hand
            self._shared = True  # nothing would tell of a step within a rest
        elif optimizer not in self.optimizers:
            self.session.roots.expect()  # with it another model may train
            self.optimizers.add(optimizer)
            self.idle_groups.update(idle_groups([optimizer]))

    def _lie_down(self) -> None:
        """Only clock the steps to come."""
        self.timeline.rest()
        self.rest.begin(self._rest, self.timeline.times[0])
        self._awake(on=False)

    def _get_up(self) -> None:
        """Look in detail again."""
        self._rest = 0
        self.rest.end()
        self._awake(on=True)
        self.session.roots.step(self._count_rested())

    def _awake(self, *, on: bool) -> None:
        """Have what is needed only for a look put in or taken out."""
        for switch in self.while_awake:
            switch(on)

    def _count_rested(self) -> int:
        """Count the steps that have only been clocked."""
        lasted = self.rest.taken()
        self.tally.clock(lasted)
        return len(lasted)

    def wake(self) -> None:
        """Something happens that is rare: this step is to be looked at, rest or not."""
        if self.rest.resting and threading.get_ident() == self.thread:
            self._get_up()
            self.timeline.reopen(self.rest.ends[-1])

    def _begin_anew(self) -> None:
        """The program trains elsewhere from here on: what was seen of a loop before is left out."""
        self.diagnostics.give_up()
        self.diagnostics = Diagnostics(self)
        self._forget_steps()
        self.waits.restart()
        self.sampler.timing = False
        self.sampler.clear()
        self.root = None
        self.facts.settled -= {"model", "step"}
        self._note = self._warming

    def _forget_steps(self) -> None:
        """No step has been seen. The first one is apart: what lies in front of it is no step's."""
        self.tally, self._warm, self._opening = Tally(), Tally(), Tally()
        self.padded = Padded()
        self.backwards: Counter[int] = Counter()
        self._passed = self.timeline.backwards

    @property
    def warmed(self) -> int:
        """The steps of the warm-up."""
        return self._opening.steps + self._warm.steps

    def _warming(self, marks: Marks, special: bool) -> None:
        if self.warmed:
            self._warm.add(marks, special)
        else:
            if not self._first:
                self.session.stepped()
            self._first = marks[1][-1]
            self.deadline = max(self.deadline, self._first + int(1e9 * LEAST_SECONDS))
            self._opening.add(from_first_phase(marks), special)
        self.warm_samples = self._per(1)
        if self.warmed >= self.options.warmup or self._untimed(marks) > 0.5:
            self.diagnostics.start()
            self._note = self._diagnosing if self.diagnostics.busy() else self._timing
        self._restart()
        self._end_if_late(marks)

    def _diagnosing(self, marks: Marks, special: bool) -> None:
        self.diagnostics.step(evaluated=bool(marks[2]))
        if self.diagnostics.busy() and self._untimed(marks) > 1.0:
            self.diagnostics.give_up()
        if not self.diagnostics.busy():
            self._note = self._timing
        self._restart()
        self._end_if_late(marks)

    def _untimed(self, marks: Marks) -> float:
        """What warm-up and diagnoses have taken since the first step, over what they may take."""
        seconds = self.options.seconds
        allowed = max(seconds, MOST_UNTIMED_SECONDS) if seconds else math.inf
        return 1e-9 * (marks[1][-1] - self._first) / allowed

    def _end_if_late(self, marks: Marks) -> None:
        """The deadline has come before any step was timed: the warm-up has to do."""
        if marks[1][-1] > self.deadline:
            self.diagnostics.give_up()
            self.finish("steps")

    def _timing(self, marks: Marks, special: bool) -> None:
        tally = self.tally
        if special or not self.sampler.struck():
            tally.add(marks, special)
        self.sampler.timing = True
        if self.counting:
            self.counted += 1
        if self.world > 1:
            self.waits.step(self.session.roots.found)
            self.at_timed_step()
        self._look_ahead()
        enough = tally.steps >= self.options.steps > 0 and marks[1][-1] > self._at_least
        if not (enough or marks[1][-1] > min(self._until, self.deadline)):
            return
        if marks[1][-1] < self.deadline and self.diagnostics.looks_again():
            self._rest, self._note = 0, self._confirming
            self._timed = self.clock(), self.pool_waited()
            self.counting = self.sampler.timing = False
            self.resources.steps_over()
        else:
            self.finish("steps")

    def _confirming(self, marks: Marks, special: bool) -> None:
        """A step after the timed ones, which tells whether what was found still holds."""
        if self.diagnostics.looked_again() or marks[1][-1] > self.deadline:
            self.finish("steps")

    def _look_ahead(self) -> None:
        """How many of the next steps may only be clocked; none if samples are to be counted."""
        tally = self.tally
        self.counting = tally.detailed < EVERY or tally.detailed % EVERY == 0
        self.sampler.usual = tally.usual * 1e-9
        may = self._cycle.every and self.timeline.may_rest and not self._shared
        left = self.options.steps - tally.steps - 1 if tally.steps < self.options.steps else FOREVER
        self._rest = left if may and not self.counting and self.rest.due(tally.usual) else 0

    def _restart(self) -> None:
        """Nothing so far counts: samples, CPU time, device times."""
        self.timeline.restart()
        now = perf_counter_ns()
        self._until = now + int(self.options.seconds * 1e9) if self.options.seconds else FOREVER
        self._at_least = now + int(self.options.least * 1e9)
        self.samples = self.rows = self.tokens = self.counted = 0
        self._began = (time.process_time(), time.perf_counter())
        self._pool_began = thread_times(main=False)

    def clock(self) -> dict[str, float]:
        """CPU and wall seconds since the first timed step began, up to the end of the last."""
        if self._timed is not None:
            return self._timed[0]
        cpu, wall = self._began
        return {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}

    def pool_waited(self) -> float:
        """What torch's other threads waited for a core, as a part of the time they were ready.

        0 where they computed next to nothing, so that none waits for them.
        """
        if self._timed is not None:
            return self._timed[1]
        now = thread_times(main=False)
        ran, waited = (max(0.0, n - t) for n, t in zip(now, self._pool_began, strict=True))
        if ran < POOL_COMPUTES * self.clock()["cpu"]:
            return 0.0
        return waited / (ran + waited) if ran else 0.0

    def is_fed_again(self, tensor: torch.Tensor | None) -> bool:
        """Whether the model was last called with the same tensor, before the same backward pass.

        Then its samples count once: it is looked at twice, as for classifier-free guidance.
        """
        if tensor is None:
            return False
        last, self._fed = self._fed, (weakref.ref(tensor), self.timeline.backwards)
        return last is not None and last[0]() is tensor and last[1] == self.timeline.backwards

    def per_step(self) -> tuple[float, float]:
        """Samples and tokens a step; 0: not known."""
        return self._per(self.counted) if self.counted else self.warm_samples

    def _per(self, steps: int) -> tuple[float, float]:
        for_all_ranks = self.world > 1 and self.samples == self.world * self.rows
        samples = self.rows if for_all_ranks or not self.samples else self.samples
        return samples / steps, self.tokens / steps

    def each_sample_once(self) -> bool:
        """Whether the training calls its model for as many samples as its loaders give.

        About as many: a loader may be read ahead.
        """
        return bool(self.samples) and abs(self.samples - self.rows) <= READ_AHEAD * self.rows

    def passes(self) -> int:
        """Backward passes that most steps have; 0 where the program does not train."""
        ((most, _),) = self.backwards.most_common(1) or ((0, 0),)
        return most

    def measured(self) -> Tally:
        """The timed steps; those of the warm-up where the run was too short for others."""
        self._count_rested()
        tallies = (self.tally, self._warm)
        return next((tally for tally in tallies if tally.steps), self._opening)
