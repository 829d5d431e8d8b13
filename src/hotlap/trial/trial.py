"""A trial in race mode: the user's command, run block by block.

The ranks of a training depend on one another at each step, so that all stop after the same one and
go on together. Where they do not come together - uneven epochs, a rank that only serves - the
lowest rank that came is followed alone from then on, and the others run as it makes them.
"""

import contextlib
import math
import os
import queue
import shutil
import signal
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import psutil

from hotlap.common.processes import cpu_seconds, descendants
from hotlap.common.signals import signals_held
from hotlap.common.still import StillWatch
from hotlap.core.errors import HotlapError
from hotlap.core.protocol import BlockReport, Losses, decode
from hotlap.trial.channel import Channel, Message, Peer
from hotlap.trial.data_parity import DataUse
from hotlap.trial.launch import Launched, Setting, Techniques, trial_folder
from hotlap.trial.load import busy_seconds
from hotlap.trial.reach import Reach

FOREVER = 1 << 60
STRAGGLE = 20.0
PER_BLOCK = 4.0


@dataclass(frozen=True)
class RankReport:
    """A rank's report of a block, and the connection that it waits at."""

    peer: Peer
    block: BlockReport


class Ranks:
    """The ranks of one trial: which of them a block waits for, and the losses of all as one figure.

    Messages go in; `complete` says when all have ended the block.
    """

    def __init__(self) -> None:
        self.losses: Losses = []
        self.alone: int | None = None
        self._peers: dict[int, Peer] = {}
        self._reports: dict[int, RankReport] = {}
        self._losses: dict[int, Losses] = {}
        self._deadline = 0.0

    @property
    def reports(self) -> list[RankReport]:
        """What has come of this block, the first rank's first."""
        return [self._reports[rank] for rank in sorted(self._reports)]

    def begin(self) -> None:
        """A new block begins: nobody has reported."""
        self._reports = {}

    def see(self, message: Message) -> None:
        """Take in a report, or that a process is gone."""
        if message.type == "gone":
            self._peers = {r: peer for r, peer in self._peers.items() if peer is not message.peer}
        elif message.type == "block":
            self._report(message)

    def _report(self, message: Message) -> None:
        block = decode(BlockReport, message.fields)
        rank = block.rank
        stranger = self._peers.setdefault(rank, message.peer) is not message.peer
        if stranger or self.alone not in (None, rank):
            message.peer.send(go=FOREVER, also={})
            return
        if not self._reports:
            wait = STRAGGLE + PER_BLOCK * block.wall
            self._deadline = time.monotonic() + wait
        self._reports[rank] = RankReport(message.peer, block)
        self._losses.setdefault(rank, []).extend(block.losses)

    def complete(self) -> bool:
        """Whether everybody has ended the block."""
        if not self._reports:
            return False
        world = 1 if self.alone is not None else max(report.block.world for report in self.reports)
        if len(self._reports) < world:
            return False
        self._join()
        return True

    def tick(self) -> None:
        """Nothing more has come for now: who is much too late is let run, for good."""
        if self._reports and time.monotonic() > self._deadline:
            self._follow_one()

    def _follow_one(self) -> None:
        self.alone = min(self._reports)
        self.losses = []
        for rank, peer in self._peers.items():
            if rank != self.alone:
                peer.send(go=FOREVER, also={})
        self._reports = {self.alone: self._reports[self.alone]}

    def _join(self) -> None:
        """One loss a step: the mean over the ranks, which is that of the whole batch."""
        columns = [self._losses[rank] for rank in sorted(self._reports)]
        for step in range(len(self.losses), min(map(len, columns))):
            seen = [loss for column in columns if (loss := column[step]) is not None]
            self.losses.append(sum(seen) / len(seen) if seen else None)


PATIENCE = 120.0
LONGEST_WAIT = 0.95  # share of a block's time that counts as waiting at the most
MEMORY_SECONDS = 1.0
LISTINGS = 50
"""A program that forks faster than this many listings is not stopped as a whole."""
FORK_SECONDS = 0.02
"""By then a fork that was under way has ended."""


@dataclass(frozen=True)
class Block:
    """A block of steps: times in seconds, memory in bytes.

    `special` lists (step, kinds, seconds) for each step in which an epoch began, an evaluation ran
    or a file was saved. `cpu` is the CPU time of all of the trial's processes; `ran` and `waited`
    are the seconds that the stepping processes' threads ran and waited for a core (0: unknown), and
    `threads` how many torch computes with. `others`: CPU seconds that other programs took meanwhile
    (inf: not known, and taken to be the cause of all waits).
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
    others: float = math.inf

    @property
    def stretch(self) -> float:
        """How many times longer it took since its threads waited for other programs: on average."""
        mean = min(self._due_to_others * self.waited / self.threads, LONGEST_WAIT * self.wall)
        return self.wall / (self.wall - mean) if mean > 0 else 1.0

    @property
    def _due_to_others(self) -> float:
        """The part of a thread's waits that is due to other programs.

        The cores that it waited for were used by them and by the trial's own workers and threads:
        in proportion to their CPU time.
        """
        own = max(0.0, self.cpu - self.ran / self.threads)
        known = self.others < math.inf and self.others + own > 0
        return self.others / (self.others + own) if known else 1.0

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


def merged(blocks: Sequence[Block]) -> Block:
    """Blocks that one process ran, one behind the other, as one."""
    last = blocks[-1]
    if len(blocks) == 1:
        return last

    reports = tuple(
        replace(
            ranks[-1],
            wall=sum(each.wall for each in ranks),
            steps=sum(each.steps for each in ranks),
            cpu=sum(each.cpu for each in ranks),
            system=sum(each.system for each in ranks),
            faults=sum(each.faults for each in ranks),
        )
        for ranks in zip(*(block.reports for block in blocks), strict=False)
    )
    return replace(
        last,
        steps=sum(block.steps for block in blocks),
        wall=sum(block.wall for block in blocks),
        cpu=sum(block.cpu for block in blocks),
        ran=sum(block.ran for block in blocks),
        waited=sum(block.waited for block in blocks),
        others=sum(block.others for block in blocks),
        special=tuple(one for block in blocks for one in block.special),
        resident=max(block.resident for block in blocks),
        cuda=max(block.cuda for block in blocks),
        reports=reports,
    )


class StepCost(NamedTuple):
    """Of a block, a step: minor page faults, seconds in the kernel, seconds of CPU time."""

    faults: float
    system: float
    cpu: float


def step_cost(blocks: Sequence[Block]) -> StepCost:
    """What a step of the blocks cost, over all processes that train."""
    steps = max(1, sum(block.steps * max(1, len(block.reports)) for block in blocks))
    reports = [report for block in blocks for report in block.reports]
    total = [sum(getattr(r, name) for r in reports) for name in StepCost._fields]
    return StepCost(*(found / steps for found in total))


class Ended(HotlapError):  # noqa: N818
    """The user's program came to its end by itself."""


class TimeOverError(HotlapError):
    """The time given to a trial was over while it ran; it stands somewhere inside a block."""


def _busy_but_for_us() -> float:
    """CPU seconds that all processes but this one have used."""
    return busy_seconds() - sum(os.times()[:2])


class Trial:
    """One run of the command, from its start to its end.

    `deadline` is the moment (of `time.monotonic`) at which a wait for it is given up. `ended_at` is
    the number of steps after which the program has ended (0: not known). `stood`: seconds
    until the end of `first` in which it was held, or had come to its first step already. `also`:
    what is on in the next block beside the setting's techniques, `switched` whether anything was.
    """

    def __init__(self, setting: Setting, patience: float = PATIENCE) -> None:
        self.setting = setting
        self._reach = Reach(patience, setting.output, setting.scratch)
        self._still = StillWatch(patience, self._tree_cpu)
        self._ranks = Ranks()
        self.held: dict[str, list[str]] = {}
        self.inert: dict[str, str] = {}
        self.blocks: list[Block] = []
        self.deadline = math.inf
        self.also: Techniques = {}
        self.switched = False
        self.ended_at = 0
        self.data = DataUse()
        self._metrics: list[tuple[str, float, float]] = []
        self.outputs: list[dict[str, object]] = []
        self._waiting: list[RankReport] = []
        self._cpu = self._busy = 0.0
        self._holds: list[tuple[float, float]] = []
        self._memory, self._memory_at = 0, -math.inf
        self._held_at = self._came_at = 0.0
        self.stood = 0.0
        try:
            with signals_held({signal.SIGINT, signal.SIGTERM}):
                self.folder = trial_folder(setting)
                self.channel = Channel(self.folder)
                self.launched = Launched(setting, self.channel.address, self.folder)
        except KeyboardInterrupt:
            self.close()
            raise

    @property
    def losses(self) -> Losses:
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
        self._go_on()
        found = self._block(first=True)
        held = sum(end - begin for begin, end in self._holds if begin < self._came_at)
        self.stood = held + time.monotonic() - self._came_at
        if found.wall > held:  # so that it was held within the block, not before
            found = self.blocks[-1] = replace(found, wall=found.wall - held)
        return found

    def hold(self) -> None:
        """Stop it on its way to its first step, until that is waited for."""
        if not (self.blocks or self._held_at):
            self._held_at = time.monotonic()
            self.pause()
            time.sleep(FORK_SECONDS)
            self.pause()  # what was forked as its parent was being stopped

    def _go_on(self) -> None:
        if self._held_at:
            self._holds.append((self._held_at, time.monotonic()))
            self._reach.paused(time.monotonic() - self._held_at)
            self._held_at = 0.0
            self.resume()

    def run(self, steps: int) -> Block:
        """Run one block.

        Raises:
            Ended: the program ended before the block did, with exit code 0.
            TrialFailedError: it failed.
            TimeOverError: the deadline came first.
        """
        self._cpu, self._busy = self._tree_cpu(), _busy_but_for_us()
        self._still.restart()
        self.switched |= bool(self.also)
        for waiting in self._waiting:
            waiting.peer.send(go=steps, also=self.also)
        self.resume(but={worker for waiting in self._waiting for worker in waiting.block.workers})
        return self._block(first=False)

    def _block(self, *, first: bool) -> Block:
        self._waiting = self._reports(first=first)
        reports = tuple(waiting.block for waiting in self._waiting)
        main = reports[0]
        cpu = max(self._tree_cpu() - self._cpu, main.cpu)
        others = max(0.0, _busy_but_for_us() - self._busy - cpu)
        self.outputs += main.outputs
        for report in reports:
            self.held |= report.held
            self.inert |= report.inert
        block = Block(
            steps=main.steps,
            at=main.at,
            wall=max(r.wall for r in reports),
            cpu=cpu,
            special=tuple(main.special),
            resident=self._others_memory() + sum(r.resident for r in reports),
            cuda=sum(r.cuda for r in reports),
            reports=reports,
            ran=sum(r.ran for r in reports),
            waited=sum(r.waited for r in reports),
            threads=sum(max(1, r.threads) for r in reports),
            others=others,
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
                self._came_at = message.at
                if message.type == "data":
                    self.data.add(message.fields, id(message.peer))
                if message.type == "ended":
                    self.ended_at = max(self.ended_at, message.fields["at"])
                if message.type == "metric":
                    reported = message.fields
                    self._metrics.append((reported["name"], reported["value"], reported["seconds"]))
        return self._ranks.reports

    def _quiet(self, *, first: bool) -> None:
        """No message waits: the program may have ended, or patience may be over."""
        code = self.launched.exit_code()
        self.launched.bound_output()
        if code is not None and self.channel.messages.empty():
            self._reach.leaves(self.launched.left)
            if code or not self.blocks:
                raise self._reach.failure(code)
            raise Ended("the program came to its end")
        self._ranks.tick()
        if first:
            self._reach.see(None)
            self.launched.check_reached()
        elif self._still.still():
            raise self._reach.stands_still(self.blocks[-1].at)

    def pids(self) -> list[int]:
        """Every live process of the trial, the supervisor left out."""
        return descendants(self.launched.supervisor)

    def pause(self) -> None:
        """Stop every process of the trial where it stands.

        A process that is forked between the listing and the stop of its parent is met by the next
        listing; what is stopped forks no more, so the second one is nearly always the last.
        """
        stopped: set[int] = set()
        for _ in range(LISTINGS):
            running = set(self.pids()) - stopped
            if not running:
                return
            for process in running:
                with contextlib.suppress(OSError):  # it has ended
                    os.kill(process, signal.SIGSTOP)
            stopped |= running

    def resume(self, but: Collection[int] = ()) -> None:
        """Let every process of the trial go on, but for those that another one lets go on."""
        for process in self.pids():
            if process not in but:
                with contextlib.suppress(OSError):
                    os.kill(process, signal.SIGCONT)

    def _tree_cpu(self) -> float:
        return sum(map(cpu_seconds, self.pids()))

    def _others_memory(self) -> int:
        """Unique memory of the processes besides the reporting ones: loader workers, launchers.

        As of the last `MEMORY_SECONDS`: the kernel walks through all of it.
        """
        now = time.monotonic()
        if now < self._memory_at + MEMORY_SECONDS:
            return self._memory
        steppers = {waiting.block.pid for waiting in self._waiting}
        self._memory, self._memory_at = 0, now
        for process in set(self.pids()) - steppers:
            with contextlib.suppress(psutil.Error):
                self._memory += psutil.Process(process).memory_full_info().uss
        return self._memory

    def close(self) -> None:
        """End the trial and remove what it left."""
        if self._held_at:  # its supervisor waits for a child that was stopped before it began
            self.resume()
        self.launched.end()
        self.channel.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> "Trial":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
