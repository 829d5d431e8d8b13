"""A trial in race mode: the user's command, run block by block."""

import contextlib
import math
import queue
import shutil
import signal
import time
from dataclasses import dataclass

import psutil

from hotlap.core.errors import HotlapError
from hotlap.core.protocol import BlockReport
from hotlap.trial.channel import Channel
from hotlap.trial.data_parity import DataUse
from hotlap.trial.launch import Launched, Setting, trial_folder
from hotlap.trial.ranks import RankReport, Ranks
from hotlap.trial.reach import Reach
from hotlap.trial.supervised import interrupts_held

PATIENCE = 120.0
LONGEST_WAIT = 0.95  # share of a block's time that counts as waiting at the most
LISTINGS = 50
"""A program that forks faster than this many listings is not stopped as a whole."""


@dataclass(frozen=True)
class Block:
    """A block of steps: times in seconds, memory in bytes.

    `special` lists (step, kinds, seconds) for each step in which an epoch began, an evaluation ran
    or a file was saved. `cpu` is the CPU time of all of the trial's processes; `ran` and `waited`
    are the seconds that the stepping processes' threads ran and waited for a core (0: unknown), and
    `threads` how many torch computes with.
    `reports` is what each rank's process said, the first rank's first. Of several ranks the slowest
    gives the time, and all together the memory.
    """

    steps: int
    at: int
    wall: float
    cpu: float
    special: tuple[tuple[int, str, float], ...]
    resident: int
    cuda: int
    reports: tuple[BlockReport, ...] = ()
    ran: float = 0.0
    waited: float = 0.0
    threads: int = 1

    @property
    def stretch(self) -> float:
        """How many times longer it took since its threads waited for a core: their mean wait."""
        mean = min(self.waited / self.threads, LONGEST_WAIT * self.wall)
        return self.wall / (self.wall - mean) if mean > 0 else 1.0

    @property
    def plain_step(self) -> float:
        """Seconds for a step that is not special; for any step when all are."""
        plain = self.steps - len(self.special)
        if not plain:
            return self.wall / self.steps
        return (self.wall - sum(seconds for *_, seconds in self.special)) / plain

    @property
    def step(self) -> float:
        """Seconds a step, special ones included."""
        return self.wall / self.steps


class Ended(HotlapError):  # noqa: N818
    """The user's program came to its end by itself."""


class TimeOverError(HotlapError):
    """The time given to a trial was over while it ran; it stands somewhere inside a block."""


class Trial:
    """One run of the command, from its start to its end.

    `deadline` is the moment (of `time.monotonic`) at which a wait for it is given up. `ended_at` is
    the number of steps after which the program has ended (0: not known).
    """

    def __init__(self, setting: Setting, patience: float = PATIENCE) -> None:
        self.setting = setting
        self._reach = Reach(patience, setting.output, setting.scratch)
        self._ranks = Ranks()
        self.held: dict[str, list[str]] = {}
        self.inert: dict[str, str] = {}
        self.blocks: list[Block] = []
        self.deadline = math.inf
        self.ended_at = 0
        self.data = DataUse()
        self._metrics: list[tuple[str, float, float]] = []
        self.outputs: list[dict[str, object]] = []
        self._waiting: list[RankReport] = []
        self._cpu = 0.0
        try:
            with interrupts_held():
                self.folder = trial_folder(setting)
                self.channel = Channel(self.folder)
                self.launched = Launched(setting, self.channel.address, self.folder)
        except KeyboardInterrupt:
            self.close()
            raise

    @property
    def losses(self) -> list[float]:
        """One loss a step so far; of several ranks their mean."""
        return self._ranks.losses

    def take_metrics(self) -> list[tuple[str, float, float]]:
        """What the program reported since last asked: name, value, seconds into the block."""
        found, self._metrics = self._metrics, []
        return found

    def first(self) -> Block:
        """Wait for the first block, which the program runs unasked.

        Raises:
            NotReachedError: no step within `patience` seconds, or a process that was not reached.
            TrialFailedError: the program failed before.
        """
        return self._block(first=True)

    def run(self, steps: int) -> Block:
        """Run one block.

        Raises:
            Ended: the program ended before the block did, with exit code 0.
            TrialFailedError: it failed.
            TimeOverError: the deadline came first.
        """
        self.resume()
        self._cpu = self._tree_cpu()
        for waiting in self._waiting:
            waiting.peer.send(go=steps)
        return self._block(first=False)

    def _block(self, *, first: bool) -> Block:
        self._waiting = self._reports(first=first)
        reports = tuple(waiting.block for waiting in self._waiting)
        main = reports[0]
        self.outputs += main.outputs
        for report in reports:
            self.held |= report.held
            self.inert |= report.inert
        block = Block(
            steps=main.steps,
            at=main.at,
            wall=max(r.wall for r in reports),
            cpu=max(self._tree_cpu() - self._cpu, main.cpu),
            special=tuple(main.special),
            resident=self._others_memory() + sum(r.resident for r in reports),
            cuda=sum(r.cuda for r in reports),
            reports=reports,
            ran=sum(r.ran for r in reports),
            waited=sum(r.waited for r in reports),
            threads=sum(max(1, r.threads) for r in reports),
        )
        self.blocks.append(block)
        return block

    def _reports(self, *, first: bool) -> list[RankReport]:
        self._ranks.begin()
        while not self._ranks.complete():
            if time.monotonic() > self.deadline:
                raise TimeOverError("the time was over")
            try:
                message = self.channel.messages.get(timeout=0.05)
            except queue.Empty:
                self._quiet(first=first)
            else:
                self._reach.see(message)
                self._ranks.see(message)
                if message.type == "data":
                    self.data.add(message.fields)
                if message.type == "ended":
                    self.ended_at = max(self.ended_at, message.fields["at"])
                if message.type == "metric":
                    reported = message.fields
                    self._metrics.append((reported["name"], reported["value"], reported["seconds"]))
        return self._ranks.reports

    def _quiet(self, *, first: bool) -> None:
        """No message waits: the program may have ended, or patience may be over."""
        code = self.launched.exit_code()
        if code is not None and self.channel.messages.empty():
            if code or not self.blocks:
                raise self._reach.failure(code)
            raise Ended("the program came to its end")
        self._ranks.tick()
        if first:
            self._reach.see(None)
            self.launched.check_reached()

    def processes(self) -> list[psutil.Process]:
        """Every live process of the trial, the supervisor left out."""
        try:
            return psutil.Process(self.launched.supervisor).children(recursive=True)
        except psutil.Error:
            return []

    def pause(self) -> None:
        """Stop every process of the trial where it stands.

        A process that is forked between the listing and the stop of its parent is met by the next
        listing; what is stopped forks no more, so the second one is nearly always the last.
        """
        stopped: set[psutil.Process] = set()
        for _ in range(LISTINGS):
            running = [process for process in self.processes() if process not in stopped]
            if not running:
                return
            for process in running:
                with contextlib.suppress(psutil.Error):
                    process.send_signal(signal.SIGSTOP)
            stopped.update(running)

    def resume(self) -> None:
        """Let every process of the trial go on."""
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGCONT)

    def _tree_cpu(self) -> float:
        total = 0.0
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                total += sum(process.cpu_times()[:4])
        return total

    def _others_memory(self) -> int:
        """Unique memory of the processes besides the reporting ones: loader workers, launchers."""
        steppers = {waiting.block.pid for waiting in self._waiting}
        total = 0
        for process in self.processes():
            if process.pid not in steppers:
                with contextlib.suppress(psutil.Error):
                    total += process.memory_full_info().uss
        return total

    def close(self) -> None:
        """End the trial and remove what it left."""
        self.launched.end()
        self.channel.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> "Trial":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
