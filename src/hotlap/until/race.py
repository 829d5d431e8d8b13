"""The race to a target: which of two commands first brings a metric to a value, over several seeds.

Each seed runs both commands at once and in turns, a slice of one while every process of the other
is stopped, so that both meet the same background load. A run's clock is its own running time from
its launch on: start-up, evaluations and whatever else it does count, waiting for its turn does not.
The rules follow AlgoPerf (Dahl et al. 2023, "Benchmarking Neural Network Training Algorithms"): a
fixed target, and the time to reach it.
"""

import math
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from hotlap.core.errors import UsageError
from hotlap.core.protocol import Standing
from hotlap.core.repeated import repeated
from hotlap.trial.launch import Setting
from hotlap.trial.time_ratio import Time, TimeRatio, time_ratio
from hotlap.trial.trial import PATIENCE, Ended, Trial
from hotlap.until.targets import (
    LOSS,
    SMOOTHED_STEPS,
    FileReader,
    OutputReader,
    SmoothedLoss,
    Target,
)

SLICE_SECONDS = 1.0
LOOK_SECONDS = 0.02
"""How often output and file are read within a slice: so exactly is it known when a value came."""
GIVE_UP_RATIO = 4.0
"""A run is given up once it has taken so many times as long as the other took to the target."""
GIVE_UP_LATE_RATIO = 1.5
"""The same for a B that is of interest only if it is sooner."""
CURVE_POINTS = 200
HOPELESS_PAIRS = 2
SAME_STEPS = 5
"""Runs of different seeds that see the same losses in so many steps are taken for one run."""


@dataclass(frozen=True)
class Point:
    """A value of the metric, after so many seconds of the run's own time and so many steps."""

    seconds: float
    steps: int
    value: float


@dataclass(frozen=True)
class Run:
    """One run: its time to the target, its best value (nan: none was finite) and its course.

    `started`: the seconds up to the end of its first step. `steps` had been run when it reached the
    target or was given up; `ended` says that the program
    came to its own end before it reached the target.
    """

    time: Time
    best: float
    steps: int
    ended: bool
    curve: tuple[Point, ...]
    started: float = 0.0


@dataclass(frozen=True)
class UntilResult:
    """The outcome. `pairs` holds A's and B's run for each seed.

    `same_losses`: the seeds changed nothing, all runs saw the same losses.
    """

    target: Target
    ratio: TimeRatio
    pairs: tuple[tuple[Run, Run], ...]
    seconds: float
    same_losses: bool = False
    interrupted: bool = False


@dataclass(frozen=True)
class MetricSource:
    """Where a metric other than the loss is read from, beside what the program reports itself."""

    pattern: str = ""
    file: Path | None = None


@dataclass(frozen=True)
class UntilRules:
    """How many seeds, the seconds for all of them, and the chance that the interval is wrong.

    `to_keep`: only a B that is sooner is of interest, so that the race ends when B was later, or
    did not arrive, in each of the first `HOPELESS_PAIRS`. That makes no wrong winner.
    """

    seeds: int = 5
    seconds: float = 600.0
    alpha: float = 0.05
    to_keep: bool = False


OnSlice = Callable[[int, "Sequence[_Runner]"], None]


def race_until(
    settings: tuple[Setting, Setting], target: Target, source: MetricSource, rules: UntilRules,
    patience: float = PATIENCE, on_slice: OnSlice = lambda *_: None,
) -> UntilResult:  # fmt: skip
    """Race two commands to a target; Ctrl-C keeps the pairs that are complete.

    Raises:
        UsageError: the metric was never seen in a run that came to its end.
        TrialFailedError: one of the commands failed.
    """
    begin = time.monotonic()
    pairs: list[tuple[Run, Run]] = []
    losses: list[tuple[float | None, ...]] = []
    interrupted = False
    try:
        for seed in range(rules.seeds):
            left = rules.seconds - (time.monotonic() - begin)
            if (seed and left < SLICE_SECONDS) or (rules.to_keep and _hopeless(pairs)):
                break
            own = replace(rules, seconds=left / (rules.seeds - seed))
            a, b, first = _one_pair(settings, target, source, own, seed, patience, on_slice)
            pairs.append((a, b))
            losses.append(first)
    except KeyboardInterrupt:
        interrupted = True
    ratio = time_ratio([(a.time, b.time) for a, b in pairs], rules.alpha)
    same = len(losses) > 1 and len(set(losses)) == 1 and bool(losses[0])
    return UntilResult(target, ratio, tuple(pairs), time.monotonic() - begin, same, interrupted)


def _hopeless(pairs: Sequence[tuple[Run, Run]]) -> bool:
    return len(pairs) >= HOPELESS_PAIRS and all(map(later, pairs))


def later(pair: tuple[Run, Run]) -> bool:
    """Whether A reached the target and B took longer, whether or not B reached it then."""
    a, b = pair
    return a.time.reached and b.time.seconds > a.time.seconds


def run_alone(
    setting: Setting, target: Target, source: MetricSource, seconds: float, patience: float
) -> tuple[Run, Standing]:
    """One run of a command to the target, for so many seconds or a slice; and what took hold."""
    end = time.monotonic() + seconds
    with _Runner(_with_seed(setting, 0), target, source, patience) as runner:
        runner.advance()
        while runner.going and time.monotonic() < end:
            runner.advance()
        return runner.run(), runner.standing()


def _one_pair(
    settings: tuple[Setting, Setting], target: Target, source: MetricSource, rules: UntilRules,
    seed: int, patience: float, on_slice: OnSlice,
) -> tuple[Run, Run, tuple[float | None, ...]]:  # fmt: skip
    """Both commands with one seed, slice by slice, for at most the rules' seconds.

    Gives both runs, and the losses of A's first steps.
    """
    end = time.monotonic() + rules.seconds
    with ExitStack() as stack:
        a, b = (
            stack.enter_context(_Runner(_with_seed(setting, seed), target, source, patience))
            for setting in settings
        )
        turn = seed % 2
        while time.monotonic() < end and (open_ := [r for r in (a, b) if r.going]):
            for runner in open_[::-1] if turn else open_:
                runner.advance()
            turn = 1 - turn
            for one, other in ((a, b), (b, a)):
                patient = GIVE_UP_LATE_RATIO if one is b and rules.to_keep else GIVE_UP_RATIO
                if other.reached is not None and one.seconds > patient * other.reached:
                    one.going = False
            on_slice(seed, (a, b))
        return a.run(), b.run(), a.first_losses()


def _with_seed(setting: Setting, seed: int) -> Setting:
    options = {**setting.options, "reseed": seed, "inference": False}
    return replace(setting, seed=(setting.seed or 0) + seed, options=options)


@dataclass(eq=False)
class _Runner:
    """One live run, advanced slice by slice; it stands stopped in between."""

    setting: Setting
    target: Target
    source: MetricSource
    patience: float
    seconds: float = 0.0
    steps: int = 0
    best: float = math.nan
    reached: float | None = None
    going: bool = True
    ended: bool = False
    started: float = 0.0
    points: list[Point] = field(default_factory=list)
    _seen: bool = False
    _trial: Trial | None = None
    _losses: int = 0
    _held: list[int] = field(default_factory=list)
    _smoothed: SmoothedLoss = field(default_factory=SmoothedLoss)

    def __enter__(self) -> "_Runner":
        assert self.setting.output is not None
        self.setting.output.unlink(missing_ok=True)
        pattern = metric_pattern(self.target, self.source)
        self._output = OutputReader(self.setting.output, pattern)
        self._file = FileReader(self._metric_file, self.target.metric, self.source.file)
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self._held:
            os.close(descriptor)
        if self._trial is not None:
            self._trial.close()

    def advance(self) -> None:
        """Run one slice: the start-up at first, then steps for about `SLICE_SECONDS`."""
        begin, done = time.monotonic(), self.steps
        with self._reading(begin) as came:
            try:
                if self._trial is None:
                    self._trial = Trial(self.setting, self.patience)
                    block = self._trial.first()
                    spent = self.started = time.monotonic() - begin
                else:
                    block = self._trial.run(self._slice_steps())
                    spent = block.wall
                self.steps = block.at
            except Ended:
                self.going, self.ended = False, True
                spent = time.monotonic() - begin
        assert self._trial is not None
        if self.going:
            self._trial.pause()
        seen = self._losses_of(spent) if self._of_losses else self._metrics_of(came, spent, done)
        for point in seen:
            self._see(point)
        self.seconds += spent
        if self.reached is not None:
            self.going = False

    def run(self) -> Run:
        """What has come of it.

        Raises:
            UsageError: the program came to its end and the metric was never seen.
        """
        if self.ended and not self._seen:
            raise self._unseen()
        reached = self.reached is not None
        seconds = self.reached if self.reached is not None else max(self.seconds, 1e-9)
        step = max(1, math.ceil(len(self.points) / CURVE_POINTS))
        curve = tuple(self.points[::-step][::-1])  # the last one reached the target
        steps = self.points[-1].steps if reached else self.steps
        return Run(Time(seconds, reached), self.best, steps, self.ended and not reached, curve,
                   self.started)  # fmt: skip

    def standing(self) -> Standing:
        """Which techniques took hold, and why others did not."""
        trial = self._trial
        held, inert = (dict(trial.held), dict(trial.inert)) if trial else ({}, {})
        return {"held": held, "inert": inert}

    def first_losses(self) -> tuple[float | None, ...]:
        """The losses of its first steps."""
        return tuple(self._trial.losses[:SAME_STEPS]) if self._trial else ()

    def _unseen(self) -> UsageError:
        if self._of_losses:
            return UsageError(
                f"the program ended after fewer than {SMOOTHED_STEPS} steps: 'loss' is the mean of "
                f"the losses of {SMOOTHED_STEPS}",
                "let it run longer, or name a metric that it prints, such as 'val_acc>=0.97'",
            )
        hint = (
            "say where it is: --metric-pattern 'REGEX with one group', --metric-file FILE, or "
            "hotlap.report(name, value) in the script"
        )
        if self._output.unread:
            hint = f"what the pattern finds holds no number: {self._output.unread!r}"
        metric = self.target.metric
        return UsageError(f"the program came to its end, and {metric!r} was never seen", hint)

    @property
    def _of_losses(self) -> bool:
        """Whether the metric is the loss that hotlap sees itself."""
        return self.target.metric == LOSS and not (self.source.pattern or self.source.file)

    def _slice_steps(self) -> int:
        assert self._trial is not None
        last = self._trial.blocks[-1]
        return max(1, min(4 * last.steps, math.ceil(SLICE_SECONDS / max(last.step, 1e-6))))

    @contextmanager
    def _reading(self, begin: float) -> Iterator[list[tuple[float, float]]]:
        """Read the values that output and file show meanwhile, with the seconds since `begin`."""
        came: list[tuple[float, float]] = []
        if self._of_losses:
            yield came
            return

        def read() -> None:
            now = time.monotonic() - begin
            came.extend((now, value) for value in self._new_values())

        with repeated(read, LOOK_SECONDS):
            yield came

    def _new_values(self) -> list[float]:
        ended = self.ended
        return [*self._output.values(ended=ended), *self._file.values(ended=ended)]

    def _losses_of(self, spent: float) -> Iterator[Point]:
        """The smoothed losses of a slice, by its seconds; its steps count as equally long."""
        assert self._trial is not None
        losses = self._trial.losses[self._losses :]
        self._losses += len(losses)
        values = list(self._smoothed.add(losses))
        first = len(losses) - len(values)
        for at, value in enumerate(values, first + 1):
            yield Point(spent * at / len(losses), self.steps - len(losses) + at, value)

    def _metrics_of(
        self, came: list[tuple[float, float]], spent: float, done: int
    ) -> Iterator[Point]:
        """The metric's values of a slice that began after `done` steps, by its seconds."""
        assert self._trial is not None
        came += [(spent, value) for value in self._new_values()]
        mine, metrics = self.target.metric, self._trial.take_metrics()
        for seconds, value in (*((at, v) for name, v, at in metrics if name == mine), *came):
            part = min(1.0, seconds / spent) if spent else 1.0
            yield Point(spent * part, done + round((self.steps - done) * part), value)

    def _see(self, point: Point) -> None:
        self._seen = True
        if self.reached is not None or not math.isfinite(point.value):
            return
        point = replace(point, seconds=self.seconds + point.seconds)
        self.points.append(point)
        better = self.target.better
        self.best = point.value if math.isnan(self.best) else better(self.best, point.value)
        if self.target.reached_by(point.value):
            self.reached = point.seconds

    def _metric_file(self) -> Path | None:
        """The metric's file as the trial sees it, through the root of one of its processes.

        The root and the mounts below it are held, so that the file can be read when the processes
        have ended: from the first block on, when the processes have their root.
        """
        trial = self._trial
        if self.source.file is None or trial is None or not (trial.blocks or self.ended):
            return None
        for pid in trial.pids() if not self._held else ():
            with suppress(OSError):
                self._held.append(os.open(f"/proc/{pid}/root", os.O_PATH))
                self._held.append(os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY))
                break
        inside = str(self.source.file.absolute())
        roots = [f"{trial.launched.scratch}/tree"]  # writes by Python, without namespaces
        roots += [f"/proc/self/fd/{self._held[0]}"] if self._held else []
        return next((seen for root in roots if (seen := Path(root + inside)).exists()), None)


def metric_pattern(target: Target, source: MetricSource) -> re.Pattern[str]:
    """The expression that finds the metric in the output.

    Raises:
        UsageError: the given one is no regular expression with one group.
    """
    if not source.pattern:
        return target.pattern
    try:
        found = re.compile(source.pattern)
    except re.error as error:
        raise UsageError(f"--metric-pattern {source.pattern!r}: {error}") from None
    if found.groups != 1:
        raise UsageError(
            f"--metric-pattern needs exactly one group, the number; it has {found.groups}",
            "a group that is not the number is written (?:...)",
        )
    return found
