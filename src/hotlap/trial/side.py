"""One side of a race: a command that is always ready to run another block of steps."""

import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from statistics import median
from typing import NamedTuple

from hotlap.core.amounts import several
from hotlap.core.errors import HotlapError, TrialFailedError
from hotlap.core.protocol import FEWEST_STEPS, SHORTEST_TRAINING, BlockReport, Losses
from hotlap.trial.data_parity import DataUse
from hotlap.trial.launch import Setting, Techniques
from hotlap.trial.reach import OtherStepsError
from hotlap.trial.trial import PATIENCE, Block, Ended, Trial

BLOCK = 0.1
"""Seconds a block lasts at the least, by the geometric mean of both sides: benchmarks.blocks."""
PAIRS_OF_EPOCHS = 6
"""Pairs of whole epochs that the time must suffice for, where plain steps would decide as well."""
SHORT_EPOCH_STEPS = 100
"""Two workers read four batches ahead: from this length on, that is 4 % of an epoch at the most."""
LONGEST_BLOCK = 4.0  # seconds up to which a whole epoch is a block
LOOK = 5.0  # seconds from the first step on, to see an epoch that may be that short
ACCUMULATED = 4  # batches that may make one step: an epoch has fewer steps than its loader batches
EPOCHS_TO_SEE, EPOCH_PARTS = 2, 8
"""Epochs that are run at the most to see the length of one, and pieces that each is run in."""
STEADY = 0.25
SETTLE_BLOCKS = 120


@dataclass(frozen=True)
class Pace:
    """What the settling of a trial showed.

    `step` is the seconds of a plain step less the waits for a core, `epoch` the steps from one
    epoch's start to the next (0: not seen), `epoch_seconds` what they take as it is, `warmup` the
    seconds from the first step until the pace was steady beyond what the same steps take
    afterwards: what compiling and the like cost once. `once_an_epoch`: seconds a step, less the
    waits for a core, of what an epoch has once (the start of its loader, an evaluation, a save),
    shared out among its steps; 0: none was seen.
    """

    step: float
    epoch: int
    epoch_seconds: float
    warmup: float
    once_an_epoch: float = 0.0

    @property
    def whole(self) -> bool:
        """Whether an epoch is short enough for blocks of whole epochs."""
        return self.epoch > 0 and self.epoch_seconds < LONGEST_BLOCK

    @property
    def block_seconds(self) -> float:
        """About how long a block will take."""
        return max(BLOCK, self.epoch_seconds) if self.whole else self.steps_seconds

    @property
    def steps_seconds(self) -> float:
        """About how long a block of plain steps will take."""
        return max(BLOCK, self.step)


@dataclass
class Launch:
    """A launch of a side: moments of `time.monotonic` (0: not yet), and seconds of its blocks."""

    begun: float
    ready: float = 0.0
    ended: float = 0.0
    raced: float = 0.0


@dataclass(eq=False)
class Side:
    """Launches its command, settles it, and launches it again whenever it comes to its end.

    A command that fails is over: the failure is raised, and the next use launches it afresh.
    `start_up` is the seconds that launching and settling took the last time, less those in which it
    stood still, `threads` what torch computes with, `epochs` whether an epoch may be short enough
    to be looked for, `passive_wait` whether threads sleep while they wait for one another,
    `steady_heap` whether malloc keeps what is freed,
    `ends_after` the steps that the program was seen to run before it ended (0: it was not), `ends`
    those of all launches that ended. `held` and `inert`
    say of each technique where it took hold in any launch, or why not; `happened` counts the steps
    in which a loader began (`epoch`), an evaluation ran (`eval`) or a file was saved (`save`), in
    the launch that had most of them. A wait that lasts until `deadline` (a
    moment of `time.monotonic`) is given up. `log` holds its launches, `starting` the seconds that
    were spent on starting and settling it. `also` are techniques that are switched on in the live
    process for the blocks to come: losses and outputs are kept as they were before. `losses` are of
    the launch that ran longest, `losses_again` of the second longest.
    """

    setting: Setting
    patience: float = PATIENCE
    whole_epoch: bool = False
    epochs: bool = True
    passive_wait: bool = False
    steady_heap: bool = False
    trial: Trial | None = None
    pace: Pace | None = None
    launches: int = 0
    start_up: float = 0.0
    threads: int = 0
    ends_after: int = 0
    ends: set[int] = field(default_factory=set)
    losses: Losses = field(default_factory=list)
    losses_again: Losses = field(default_factory=list)
    data: DataUse = field(default_factory=DataUse)
    outputs: list[dict[str, object]] = field(default_factory=list)
    peak: int = 0
    held: dict[str, list[str]] = field(default_factory=dict)
    inert: dict[str, str] = field(default_factory=dict)
    happened: Counter[str] = field(default_factory=Counter)
    deadline: float = math.inf
    also: Techniques = field(default_factory=dict)
    log: list[Launch] = field(default_factory=list)
    starting: float = 0.0
    _losses_of: int = 0  # the launch that they are of
    _peaks: dict[int, int] = field(default_factory=dict)
    _waited_for: bool = False
    _settled: bool = False
    _short: bool = False  # over before it could be settled
    _began: float = 0.0

    @property
    def samples(self) -> float:
        """Samples that a usual step of all ranks takes; 0 where they are unknown."""
        ranks = len(self.trial.blocks[-1].reports) if self.trial and self.trial.blocks else 0
        return self.data.samples * ranks

    @property
    def at(self) -> int:
        """Steps that the live process has run."""
        return self.trial.blocks[-1].at if self.trial is not None and self.trial.blocks else 0

    def start(self) -> None:
        """Launch the command, if it is not live, and do not wait for it."""
        if self.trial is not None:
            return
        with self._timed_start():
            self._began = time.monotonic()
            passive = self.passive_wait or self.setting.passive_wait
            setting = replace(self.setting, passive_wait=passive, steady_heap=self.steady_heap)
            self.trial = Trial(setting, self.patience)
            self.launches += 1
            self.log.append(Launch(self._began))

    def first_step(self) -> None:
        """Wait for the first step of what was started; afterwards it stands paused."""
        self.start()
        assert self.trial is not None
        if self.trial.blocks:
            return
        try:
            with self._timed_start(), self._over_if_it_fails():
                self.trial.first()
        except OtherStepsError as other:
            self._counting(other)
            self.first_step()
        else:
            self.trial.pause()

    def hold(self) -> None:
        """Stop what was started where it stands, until its first step is waited for."""
        if self.trial is not None:
            self.trial.hold()

    def _counting(self, other: OtherStepsError) -> None:
        """What a step of the program is has been seen: what ran so far does not count."""
        self.setting = self.setting.counting(inference=other.inference)
        self.pace, self.ends_after, self.ends, self._short = None, 0, set(), False
        self.losses, self.losses_again, self.outputs = [], [], []

    def ready(self) -> Pace:
        """Bring it to a steady pace if it is not live yet; afterwards it stands paused."""
        while self.trial is None or not self._settled:
            try:
                with self._timed_start():
                    if self._short:
                        self._settle_short()
                    else:
                        known, epochs = self.pace, self.epochs
                        self._settle(Patience(self.whole_epoch, known=known, epochs=epochs))
            except OtherStepsError as other:
                self._counting(other)
                continue
            except Ended:
                self._ended()
                self._short = True
        assert self.pace is not None
        return self.pace

    def _settle(self, patience: "Patience") -> None:
        self.first_step()
        assert self.trial is not None
        with self._over_if_it_fails():
            self.pace = settle(self.trial, patience)
        self._settled = True
        self.threads = max(report.threads for report in self.trial.blocks[-1].reports)
        self._note()
        self.trial.pause()
        self.log[-1].ready = time.monotonic()
        self.start_up = self.log[-1].ready - self._began - self.trial.stood

    def _settle_short(self) -> None:
        """Launch a program that is over before it could be settled: half of it is warm-up."""
        try:
            self._settle(Patience(most_steps=max(1, self.ends_after // 2)))
        except Ended:
            self._ended()
            raise self._too_short() from None
        assert self.pace is not None
        if (self.ends_after - self.at) * self.pace.step < SHORTEST_TRAINING:
            self.close()
            raise self._too_short()

    def _too_short(self) -> TrialFailedError:
        return too_short(self.ends_after, self.pace.step if self.pace else 0.0)

    @property
    def longest_epoch(self) -> float:
        """Seconds that an epoch of the live process takes at the most; infinite where unknown."""
        if self.pace is not None and self.pace.epoch:
            return self.pace.epoch_seconds
        steps = self.epoch_steps
        return steps * self.pace.step if steps and self.pace is not None else math.inf

    @property
    def epoch_steps(self) -> int:
        """Steps of an epoch: as seen, or the batches of the longest loader; 0: unknown."""
        if self.pace is not None and self.pace.epoch:
            return self.pace.epoch
        return max((report.batches for report in self._reports), default=0)

    @property
    def reads_ahead(self) -> bool:
        """Whether the live process's loader workers read ahead a good part of an epoch."""
        return self.has_workers and short_epoch(self.epoch_steps)

    @property
    def has_workers(self) -> bool:
        """Whether loaders of the live process have worker processes."""
        return any(report.workers for report in self._reports)

    @property
    def _reports(self) -> tuple[BlockReport, ...]:
        """What the live process's ranks reported of its last block."""
        return self.trial.blocks[-1].reports if self.trial and self.trial.blocks else ()

    def see_epoch(self) -> None:
        """Run on, untimed, until an epoch of known length has passed, or should have."""
        pace = self.ready()
        if pace.epoch or not math.isfinite(self.longest_epoch):
            return
        steps = max(1, round(self.longest_epoch / pace.step / EPOCH_PARTS))
        for _ in range(EPOCHS_TO_SEE * EPOCH_PARTS):
            self.catch_up(steps)
            if self.trial is None:
                self.ready()
                return
            epoch = _last_epoch(self.trial.blocks, pace.step, pace.step)
            if epoch.steps:
                self.pace = replace(
                    pace, epoch=epoch.steps, epoch_seconds=epoch.seconds, once_an_epoch=epoch.once
                )
                return

    def ready_pace(self) -> Pace:
        """The pace of its last settling, live or not."""
        return self.pace or self.ready()

    def block(self, steps: int) -> Block:
        """Run one block of steps, from a fresh start of the command if it has ended.

        Where even a fresh program ends before the block does, the block is made shorter.

        Raises:
            TimeOverError: the deadline came first; the command is closed.
            TrialFailedError: the command failed, or is too short for any block.
        """
        while steps:
            if self.ends_after and self.at + steps > self.ends_after:
                self.close()
            fresh = self.trial is None
            self.ready()
            assert self.trial is not None
            self._switch()
            if self.trial is None:  # it ended in the step with which it was switched
                if fresh:
                    break
                continue
            if fresh and self.ends_after > self.at:
                steps = min(steps, self.ends_after - self.at)
            try:
                with self._over_if_it_fails():
                    block = self.trial.run(steps)
            except OtherStepsError as other:
                self._counting(other)
                continue
            except Ended:
                self._ended()
                steps = steps // 2 if fresh else steps
                continue
            self.trial.pause()
            self._note()
            self.log[-1].raced += block.wall
            return block
        raise self._too_short()

    def _switch(self) -> None:
        """Have `also` on and nothing else, behind a first step that is not timed."""
        assert self.trial is not None
        if self.trial.also != self.also:
            self.trial.also = self.also
            self.catch_up(1)

    def pace_with(self, also: Techniques) -> Pace:
        """The pace with these switched on in the live process, and nothing else; they stay on."""
        self.also = also
        for _ in range(2):
            known = self.ready()
            assert self.trial is not None
            self._switch()
            try:
                if self.trial is not None:
                    with self._over_if_it_fails():
                        found = settle(
                            self.trial, Patience(known=known, since=len(self.trial.blocks) - 1)
                        )
                    self.trial.pause()
                    self._note()
                    return found
            except Ended:
                self._ended()
        raise self._too_short()

    def catch_up(self, steps: int) -> None:
        """Run so many steps untimed; a program that comes to its end on the way is over."""
        assert self.trial is not None
        try:
            with self._over_if_it_fails():
                self.trial.run(steps)
        except Ended:
            self._ended()
        else:
            self.trial.pause()
            self._note()

    def _ended(self) -> None:
        assert self.trial is not None
        self.ends_after = max(self.at, self.trial.ended_at)
        self.ends.add(self.ends_after)
        self.close()

    def _note(self) -> None:
        assert self.trial is not None
        as_started = not self.trial.switched
        if as_started:
            self._take_losses(self.trial)
        self.held = self.held | self.trial.held
        self.inert = self.inert | self.trial.inert
        self.happened |= Counter(
            kind for block in self.trial.blocks for _, kinds, _ in block.special
            for kind in kinds.split("+")
        )  # fmt: skip
        if as_started and len(self.trial.outputs) > len(self.outputs):
            self.outputs = list(self.trial.outputs)
        found = max(b.cuda or b.resident for b in self.trial.blocks[-3:])
        self.peak = max(self.peak, found)
        if as_started:  # else what was switched on meanwhile, or was compiled for it, counts too
            self._peaks[self.at] = max(found, self._peaks.get(self.at, 0))

    def _take_losses(self, trial: Trial) -> None:
        """Keep the losses of the two launches that ran longest."""
        own = self._losses_of == self.launches
        if len(trial.losses) > len(self.losses):
            if not own:
                self.losses_again = self.losses
            self.losses, self._losses_of = list(trial.losses), self.launches
            self.data = trial.data
        elif not own and len(trial.losses) > len(self.losses_again):
            self.losses_again = list(trial.losses)

    def memory_over(self, other: "Side", step: float = math.inf) -> float:
        """Its peak memory over that of another, up to a step that both have run; 1 if unknown.

        An evaluation or a save beyond it, which one of the two has come to, tells nothing.
        """
        if not other.peak:
            return 1.0
        common = min([step, *(max(side._peaks, default=0) for side in (self, other))])
        return self.peak_by(int(common)) / max(1, other.peak_by(int(common)))

    def peak_by(self, step: int) -> int:
        """Peak memory (bytes) of its processes up to a step; up to the first that was noted."""
        until = max(step, min(self._peaks, default=step))
        return max((peak for at, peak in self._peaks.items() if at <= until), default=self.peak)

    @contextmanager
    def _over_if_it_fails(self) -> Iterator[None]:
        assert self.trial is not None
        self.trial.deadline = self.deadline
        try:
            yield
        except Ended:
            raise
        except HotlapError:
            self.close()
            raise

    @contextmanager
    def _timed_start(self) -> Iterator[None]:
        """Add what is inside to `starting`, once where one is inside of another."""
        if self._waited_for:
            yield
            return
        begin, self._waited_for = time.monotonic(), True
        try:
            yield
        finally:
            self.starting += time.monotonic() - begin
            self._waited_for = False

    def close(self) -> None:
        """End what is live."""
        self._settled = False
        if self.trial is not None:
            self.trial.close()
            self.trial = None
            self.log[-1].ended = time.monotonic()


def too_short(steps: int, seconds: float) -> TrialFailedError:
    """The failure of a program that ends after so few steps (of so many seconds; 0: unknown)."""
    millis = 1000 * seconds
    each = f" of {f'{millis:.0f}' if millis >= 10 else f'{millis:.2g}'} ms" if seconds else ""
    least = math.ceil(SHORTEST_TRAINING / seconds) if seconds else 0
    return TrialFailedError(
        f"the program ends after {several(steps, 'step')}{each}, too short to time",
        f"let it run longer: {max(least, FEWEST_STEPS)} steps or more",
    )


@dataclass(frozen=True)
class Patience:
    """How long to settle.

    Through the first epoch with `whole_epoch`; for at most so many steps (0: any number); only
    until steady where an earlier launch has shown the pace (`known`), or where the other side of a
    race has shown that no epoch is short (`epochs` False). `since`: blocks that do not count.
    """

    whole_epoch: bool = False
    most_steps: int = 0
    known: Pace | None = None
    epochs: bool = True
    since: int = 0


def settle(trial: Trial, patience: Patience) -> Pace:
    """Run a trial from its first step until its pace is steady and, if that is soon, an epoch ends.

    With `whole_epoch` the first epoch is always run through: what it fills (a cache) counts as
    warm-up, and the pace is that of the steps behind it. Steady means: the last two blocks of at
    least 50 ms agree within a quarter.

    Raises:
        Ended: the program came to its end before.
    """
    blocks = trial.blocks
    steps, most = 1, patience.most_steps or 1 << 60
    while blocks[-1].at < most:
        trial.run(min(steps, most - blocks[-1].at))
        if _steady(_after_filling(blocks, patience)) and _epoch_known(blocks, patience):
            break
        if len(blocks) - patience.since > SETTLE_BLOCKS and not patience.whole_epoch:
            break
        last = blocks[-1].wall
        steps = min(4 * steps, max(1, math.ceil(steps * BLOCK / max(last, 1e-6))))
    found = _pace(blocks)
    return found if patience.known is None else replace(patience.known, step=found.step)


def _after_filling(blocks: Sequence[Block], patience: Patience) -> Sequence[Block]:
    """The blocks that count: with `whole_epoch` those that began in the second epoch or later."""
    if not patience.whole_epoch:
        return blocks[patience.since :]
    second = next(iter(_epoch_starts(blocks)[1:]), math.inf)
    return [block for block in blocks if block.at - block.steps >= second]


def _steady(blocks: Sequence[Block]) -> bool:
    timed = [block for block in blocks[-3:] if block.wall > 0.05]
    if len(timed) < 2:
        return False
    before, now = (block.plain_step / block.stretch for block in timed[-2:])
    return abs(math.log(max(before, 1e-9) / max(now, 1e-9))) < STEADY


def _epoch_known(blocks: Sequence[Block], patience: Patience) -> bool:
    """Whether an epoch's length was seen, or none is to be expected that would fit into a block."""
    if len(_epoch_starts(blocks)) > 1:
        return True
    if patience.whole_epoch:
        return False
    if patience.known is not None or not patience.epochs or not _epoch_starts(blocks):
        return True
    last = blocks[-1]
    batches = max((report.batches for report in last.reports), default=0)
    if batches * last.plain_step > ACCUMULATED * LONGEST_BLOCK:
        return True
    return sum(block.wall for block in blocks[1:]) > LOOK


def _epoch_starts(blocks: Sequence[Block]) -> list[int]:
    """The steps in which a loader began; of a script without one, those behind an evaluation."""
    special = [one for block in blocks for one in block.special]
    began = [at for at, kinds, _ in special if "epoch" in kinds]
    return began or [at for at, kinds, _ in special if "eval" in kinds]


class BlockSize(NamedTuple):
    """What two sides run in turns: `unit` as in a race's result, and what a pair takes in all."""

    unit: str
    steps: int
    pair_seconds: float


def block_size(
    a: Pace, b: Pace, longest: float = math.inf, *, whole: bool = False, least: float = BLOCK
) -> BlockSize:
    """Blocks of whole epochs where both have the same short ones; else of plain steps.

    The geometric mean of what both take for one is at least `least` seconds: a side that is many
    times faster has shorter blocks, as a difference that large shows in them, and pairs stay cheap.
    `longest`: seconds that `PAIRS_OF_EPOCHS` may take; plain steps where they take longer.
    `whole`: an epoch may be of any length.
    """
    if a.epoch == b.epoch > 0 and (whole or (a.whole and b.whole)):
        epochs = max(1, math.ceil(least / math.sqrt(a.epoch_seconds * b.epoch_seconds)))
        seconds = epochs * (a.epoch_seconds + b.epoch_seconds)
        if PAIRS_OF_EPOCHS * seconds <= longest:
            return BlockSize("epoch", epochs * a.epoch, seconds)
    steps = max(1, math.ceil(least / math.sqrt(a.step * b.step)))
    return BlockSize("step", steps, steps * (a.step + b.step))


def short_epoch(steps: int) -> bool:
    """Whether an epoch is so short that workers read ahead a good part of it (0: not known).

    Plain steps leave out the step that begins an epoch, in which the workers fill their queue.
    """
    return 0 < steps <= SHORT_EPOCH_STEPS


class _Epoch(NamedTuple):
    """Steps, seconds, and the share of each step in what it has once; all 0 where none was seen."""

    steps: int
    seconds: float
    once: float


def _pace(blocks: Sequence[Block]) -> Pace:
    plain = median(block.plain_step for block in blocks[-2:])
    step = median(block.plain_step / block.stretch for block in blocks[-2:])
    spent = sum(block.wall / block.stretch for block in blocks)
    steps = sum(block.steps for block in blocks)
    epoch = _last_epoch(blocks, plain, step)
    return Pace(step, epoch.steps, epoch.seconds, max(0.0, spent - steps * step), epoch.once)


def _last_epoch(blocks: Sequence[Block], plain_step: float, step: float) -> _Epoch:
    """The last epoch that was seen, with plain steps of `plain_step` seconds.

    What it has once is less the waits for a core, as `step` is: those of a single epoch would be
    taken for its own.
    """
    starts = _epoch_starts(blocks)
    if len(starts) < 2:
        return _Epoch(0, 0.0, 0.0)
    before, last = starts[-2:]
    special = [
        (seconds, seconds / block.stretch)
        for block in blocks
        for at, _, seconds in block.special
        if before < at <= last
    ]
    steps = last - before
    seconds = (steps - len(special)) * plain_step + sum(whole for whole, _ in special)
    beyond = sum(unwaited for _, unwaited in special) - len(special) * step
    return _Epoch(steps, seconds, max(0.0, beyond) / steps)
