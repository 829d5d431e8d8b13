"""One batch size on the track: the command, run with it, block by block."""

import math
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hotlap.batch.limits import Limits, Watch
from hotlap.core.errors import TrialFailedError
from hotlap.trial.launch import Setting
from hotlap.trial.race import out_of_memory
from hotlap.trial.trial import Block, Ended, Trial

BLOCK = 0.3
WARM_SECONDS = 1.0
FEWEST_WARM = 3
SIGNS = ("can't allocate memory", "not enough memory", "cannot allocate memory", "sigkill",
         "signal 9", "exitcode: -9", "cublas_status_alloc_failed")  # fmt: skip


class TooLarge(Exception):  # noqa: N818
    """The trial ran out of memory, or would have."""


@dataclass(frozen=True)
class Plan:
    """How to run the command at any batch size.

    `argument` is what is added to the command, with `{batch}` in it; empty: the loaders numbered
    `loaders` are driven.
    """

    setting: Setting
    loaders: tuple[int, ...] = ()
    argument: str = ""
    patience: float = 120.0
    limits: Limits = field(default_factory=Limits)

    def at(self, size: int) -> Setting:
        """The setting for one batch size; 0: the script as it is."""
        orders: dict[str, Any] = {}
        command = self.setting.command
        if size and self.argument:
            command = (*command, *shlex.split(self.argument.replace("{batch}", str(size))))
        elif size:
            orders = {"loaders": list(self.loaders), "size": size}
        return replace(self.setting, command=command, options={"first": 1, "batch": orders})


@dataclass(frozen=True)
class Lap:
    """One block: samples drawn by all ranks in the seconds of training, and the optimizer steps.

    `cpu`: seconds of processor time of the whole trial, evaluation and loader workers included.
    """

    samples: float
    seconds: float
    steps: int
    cpu: float = 0.0

    @property
    def pace(self) -> float:
        """Seconds a sample."""
        return self.seconds / self.samples


class Contender:
    """A trial at one batch size, started when it is needed and again when it has ended."""

    def __init__(self, plan: Plan, size: int) -> None:
        self.size = size
        self.memory = 0
        self.report: Mapping[str, Any] = {}
        self.world = 1
        self.step = 0.0
        self._plan = plan
        self._setting = plan.at(size)
        self._trial: Trial | None = None
        self._watch: Watch | None = None

    @property
    def live(self) -> bool:
        """Whether a trial of it stands ready."""
        return self._trial is not None

    def ready(self) -> None:
        """Start it and warm it up, if it is not live.

        Raises:
            TooLarge: it does not fit into memory.
            HotlapError: it failed for another reason, or no step of it was seen.
        """
        if self._trial is None:
            self._guarded(self._start)

    def lap(self, seconds: float = BLOCK) -> Lap:
        """Run a block of about so many seconds, from a fresh start if the program has ended."""
        for _ in range(6):
            fresh = not self.live
            self.ready()
            steps = max(1, math.ceil(seconds / max(self.step, 1e-6)))
            try:
                return self._timed(self._run(steps))
            except Ended:
                self.close()
                seconds = seconds / 2 if fresh else seconds
        raise TrialFailedError(
            f"at batch {self.size} the program ends before {BLOCK} s of it could be timed",
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
        """End what is live."""
        trial, watch = self._trial, self._watch
        self._trial = self._watch = None
        if watch is not None:
            watch.end()
        if trial is not None:
            trial.close()

    def _start(self) -> None:
        if self._setting.output is not None:
            self._setting.output.unlink(missing_ok=True)
        self._trial = Trial(self._setting, self._plan.patience)
        self._watch = Watch(self._trial, self._plan.limits)
        try:
            self._warm(self._trial)
        except Ended:  # over before it was warm: what was seen has to do
            blocks = self._trial.blocks
            self.close()
            if len(blocks) < 2:
                raise TrialFailedError(
                    f"at batch {self.size} the program ends after {len(blocks)} step(s)",
                    "let it train for more epochs",
                ) from None
            self._trial = Trial(self._setting, self._plan.patience)
            self._watch = Watch(self._trial, self._plan.limits)
            self._note(self._trial.first())
        self._trial.pause()

    def _warm(self, trial: Trial) -> None:
        begin = time.monotonic()
        self._note(trial.first())
        count, steps = 0, 1
        while count < FEWEST_WARM or time.monotonic() - begin < WARM_SECONDS:
            block = trial.run(steps)
            self._note(block)
            self.step = block.wall / block.steps
            count += 1
            steps = max(1, min(4 * steps, math.ceil(0.2 / max(self.step, 1e-6))))
            if self.step > 2 * WARM_SECONDS and count > 1:
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

    def _guarded(self, action: Any) -> None:
        """Tell running out of memory from other failures."""
        try:
            action()
        except TrialFailedError as error:
            why = self._why(error)
            self.close()
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
        if self._watch is not None and self._watch.broken:
            return self._watch.broken
        code = self._trial.launched.exit_code() if self._trial is not None else 0
        words = f"{error}\n{_tail(self._setting.output)}"
        if code in (-9, 137):
            return "the system killed it for memory"
        if out_of_memory(words) or any(sign in words.lower() for sign in SIGNS):
            return "out of memory"
        return ""

    def _note(self, block: Block) -> None:
        self.report = block.reports[0]
        self.world = len(block.reports)
        self.memory = max(self.memory, *(r["cuda"] or r["resident"] for r in block.reports))
        for report in block.reports:
            total, peak = report["device"]["total"], report["device"]["peak"]
            if total and peak > (1 - self._plan.limits.headroom) * total:
                raise TooLarge(f"no head-room is left on the device ({peak / total:.0%} in use)")

    def _timed(self, block: Block) -> Lap:
        paused = max(float(r["paused"]) for r in block.reports)
        samples = sum(float(r["samples"]) for r in block.reports)
        if not samples:  # no DataLoader: by what the script was told
            samples = float(self.size * block.steps * self.world)
        self.step = block.wall / block.steps
        return Lap(samples, max(block.wall - paused, 1e-9), block.steps, block.cpu)


def _tail(output: Path | None) -> str:
    if output is None or not output.exists():
        return ""
    return output.read_text(errors="replace")[-4000:]
