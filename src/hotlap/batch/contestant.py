"""One batch size: the command, run with it in a trial, block by block."""

import math
import shlex
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from hotlap.batch.limits import Limits, MemoryWatch
from hotlap.common.disk import end_of
from hotlap.core.errors import TrialFailedError
from hotlap.core.protocol import BatchOptions, BatchReport
from hotlap.core.spec import Mode
from hotlap.trial.launch import Setting
from hotlap.trial.race import out_of_memory
from hotlap.trial.trial import Block, Ended, Trial

BLOCK_SECONDS = 0.3
WARM_UP_SECONDS = 1.0
MIN_WARM_UP_BLOCKS = 3
OUT_OF_MEMORY_SIGNS = (
    "can't allocate memory", "not enough memory", "cannot allocate memory", "sigkill",
    "signal 9", "exitcode: -9", "cublas_status_alloc_failed",
)  # fmt: skip


class TooLarge(Exception):  # noqa: N818
    """The trial ran out of memory, or was about to."""


class OutOfTime(Exception):  # noqa: N818
    """The budget ended while the trial ran; the trial was ended with it."""


@dataclass(frozen=True)
class SizedCommand:
    """How to run the command at any batch size.

    `argument` is added to the command, with `{batch}` in it; if it is empty, the loaders numbered
    `loaders` get the size. A trial that still runs at `deadline` (of `time.monotonic`) is ended.
    """

    setting: Setting
    loaders: tuple[int, ...] = ()
    argument: str = ""
    patience: float = 120.0
    limits: Limits = field(default_factory=Limits)
    deadline: float = math.inf

    def at(self, size: int) -> Setting:
        """The setting for one batch size; 0: the script as it is."""
        options = BatchOptions()
        command = self.setting.command
        if size and self.argument:
            command = (*command, *shlex.split(self.argument.replace("{batch}", str(size))))
        elif size:
            options = BatchOptions(loaders=list(self.loaders), size=size)
        return replace(self.setting, mode=Mode.BATCH, command=command, options=asdict(options))


@dataclass(frozen=True)
class TimedBlock:
    """One block: what all ranks trained on, in `seconds` of training, and the optimizer steps.

    `samples` as the loaders yielded them; 0 without a DataLoader. `elements` of the model's first
    input; 0 if no module was called. `cpu`: seconds of processor time of the whole trial,
    evaluation and loader workers included. `stretch`: how many times longer the threads took for
    waiting for a core.
    """

    samples: float
    seconds: float
    steps: int
    elements: float = 0.0
    cpu: float = 0.0
    stretch: float = 1.0


class Contestant:
    """A trial at one batch size, started when it is needed and again when it has ended.

    `start_up` is the seconds that starting and warming up took the last time, `step` those of one
    step; `threads` how many torch computes with.
    """

    def __init__(self, sized: SizedCommand, size: int) -> None:
        self.size = size
        self.memory = 0
        self.report: BatchReport | None = None
        self.world = self.threads = 1
        self.step = 0.0
        self.start_up = 0.0
        self._sized = sized
        self._setting = sized.at(size)
        self._trial: Trial | None = None
        self._watch: MemoryWatch | None = None

    @property
    def live(self) -> bool:
        """Whether its trial is running or paused."""
        return self._trial is not None

    def ready(self) -> None:
        """Start it and warm it up, if it is not live.

        Raises:
            TooLarge: it does not fit into memory.
            OutOfTime: the deadline came first.
            HotlapError: it failed for another reason, or no step of it was seen.
        """
        if self._trial is None:
            begin = time.monotonic()
            self._guarded(self._start)
            self.start_up = time.monotonic() - begin

    def timed(self, seconds: float = BLOCK_SECONDS) -> TimedBlock:
        """Run a block of about so many seconds, from a fresh start if the program has ended."""
        for _ in range(6):
            fresh = not self.live
            self.ready()
            steps = max(1, math.ceil(seconds / max(self.step, 1e-6)))
            try:
                return self._block_of(self._run(steps))
            except Ended:
                self.close()
                seconds = seconds / 2 if fresh else seconds
        raise TrialFailedError(
            f"at batch {self.size} the program ends before {BLOCK_SECONDS} s of it could be timed",
            "let it train for more epochs",
        )

    def run(self, steps: int) -> None:
        """Run so many steps in all, through as many starts of the program as that takes."""
        while steps > 0:
            self.ready()
            try:
                steps -= self._run(min(steps, 5)).steps
            except Ended:
                assert self._trial is not None
                steps -= max(1, sum(block.steps for block in self._trial.blocks) // 2)
                self.close()

    def close(self) -> None:
        """End its trial, if it is live."""
        trial, watch = self._trial, self._watch
        self._trial = self._watch = None
        if watch is not None:
            watch.end()
        if trial is not None:
            trial.close()

    def _start(self) -> None:
        if self._setting.output is not None:
            self._setting.output.unlink(missing_ok=True)
        trial = self._launch()
        try:
            self._warm_up(trial)
        except Ended:  # over before it was warm: use what was seen
            blocks = trial.blocks
            self.close()
            if len(blocks) < 2:
                raise TrialFailedError(
                    f"at batch {self.size} the program ends after {len(blocks)} step(s)",
                    "let it train for more epochs",
                ) from None
            trial = self._launch()
            self._note(trial.first())
        trial.pause()

    def _launch(self) -> Trial:
        self._trial = Trial(self._setting, self._sized.patience)
        self._watch = MemoryWatch(self._trial, self._sized.limits, self._sized.deadline)
        return self._trial

    def _warm_up(self, trial: Trial) -> None:
        begin = time.monotonic()
        self._note(trial.first())
        count, steps = 0, 1
        while count < MIN_WARM_UP_BLOCKS or time.monotonic() - begin < WARM_UP_SECONDS:
            block = trial.run(steps)
            self._note(block)
            self.step = block.wall / block.steps
            count += 1
            steps = max(1, min(4 * steps, math.ceil(0.2 / max(self.step, 1e-6))))
            if self.step > 2 * WARM_UP_SECONDS and count > 1:
                break

    def _run(self, steps: int) -> Block:
        assert self._trial is not None
        trial = self._trial
        found: list[Block] = []

        def act() -> None:
            found.append(trial.run(steps))
            trial.pause()
            self._note(found[0])

        self._guarded(act)
        return found[0]

    def _guarded(self, action: Callable[[], None]) -> None:
        """Distinguish running out of memory and out of time from other failures."""
        try:
            action()
        except TrialFailedError as error:
            expired = self._watch is not None and self._watch.expired
            why = self._why(error)
            self.close()
            if expired:
                raise OutOfTime from None
            if why:
                raise TooLarge(why) from None
            raise
        except Ended:
            raise
        except BaseException:
            self.close()
            raise

    def _why(self, error: TrialFailedError) -> str:
        """Why the trial ran out of memory; empty if it failed for another reason."""
        if self._watch is not None and self._watch.exceeded:
            return self._watch.exceeded
        code = self._trial.launched.exit_code() if self._trial is not None else 0
        words = f"{error}\n{_tail(self._setting.output)}"
        if code in (-9, 137):
            return "the system killed it for memory"
        if out_of_memory(words) or any(sign in words.lower() for sign in OUT_OF_MEMORY_SIGNS):
            return "out of memory"
        return ""

    def _note(self, block: Block) -> None:
        reports = _of_batches(block)
        self.report, self.world = reports[0], len(reports)
        self.threads = block.threads
        self.memory = max(self.memory, *(r.cuda or r.resident for r in block.reports))
        for report in reports:
            total, peak = report.device_total, report.device_peak
            if total and peak > (1 - self._sized.limits.headroom) * total:
                raise TooLarge(f"{peak / total:.0%} of the device's memory is in use: no headroom")

    def _block_of(self, block: Block) -> TimedBlock:
        reports = _of_batches(block)
        paused = max(report.paused for report in reports)
        self.step = block.wall / block.steps
        return TimedBlock(
            samples=sum(report.samples for report in reports),
            seconds=max(block.wall - paused, 1e-9),
            steps=block.steps,
            elements=sum(report.elements for report in reports),
            cpu=block.cpu,
            stretch=block.stretch,
        )


def _of_batches(block: Block) -> list[BatchReport]:
    return [report.batch for report in block.reports if report.batch is not None]


def _tail(output: Path | None) -> str:
    return "" if output is None else end_of(output, 4000)
