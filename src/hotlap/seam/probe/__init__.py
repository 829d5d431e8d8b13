"""Profile mode: where each step's time and memory go, seen from inside the user's process."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import asdict
from multiprocessing import util
from typing import TYPE_CHECKING

import torch

from hotlap.seam.participant import Participant
from hotlap.seam.process import at_exit, rank_and_world
from hotlap.seam.where import place

if TYPE_CHECKING:
    from hotlap.seam.probe.recorder import Recorder


@contextmanager
def probing(session: Participant) -> Iterator[None]:
    """Follow the training of this process; send what was learned after the steps asked for.

    A program that ends before is reported as it ends, and a part of one that is profiled in a live
    process as its context is left. The first rank reports all of that, the others where their time
    goes (`hotlap.seam.probe.ranks`).
    """
    from hotlap.seam.probe.boundaries import boundaries
    from hotlap.seam.probe.device import DeviceTimeline, synchronising
    from hotlap.seam.probe.module_sites import making, warned
    from hotlap.seam.probe.progress import telling
    from hotlap.seam.probe.recorder import Recorder
    from hotlap.seam.probe.spread import spreading
    from hotlap.seam.probe.timeline import Timeline
    from hotlap.seam.probe.waits import buffers_timed

    gpu = torch.cuda.is_available()
    rec = Recorder(session, DeviceTimeline() if gpu else Timeline())
    report = _Report(rec)
    rec.finish = report.send
    rec.at_timed_step = report.timed
    rec.at_first_step.append(report.numbered)
    rec.at_first_step.append(
        lambda: telling(
            session.spec.control, lambda: rec.tally.steps, rec.options.patience, report.stalled
        )
    )
    with ExitStack() as stack:
        stack.enter_context(boundaries(rec))
        stack.enter_context(making(rec))
        stack.enter_context(spreading(rec.spread, rec.facts))
        stack.enter_context(buffers_timed(rec.waits))
        stack.enter_context(warned(rec))
        if gpu:
            stack.enter_context(synchronising(rec))
        stack.enter_context(rec.sampling_from_first_step())
        stack.callback(at_exit(lambda: report.send("exit")))
        os.register_at_fork(after_in_child=rec.forked)
        util.register_after_fork(rec, lambda recorder: recorder.child_begun())
        stack.callback(report.send, "left")
        yield


class _Report:
    """Sends the profile, once; of another rank than the first its times, at intervals."""

    def __init__(self, rec: "Recorder") -> None:
        from hotlap.seam.probe.ranks import Schedule

        self._rec = rec
        self._schedule = Schedule()
        self._sent = False
        self._rank = 0
        self._stood_at = ""

    @contextmanager
    def numbered(self) -> Iterator[None]:
        """Note the rank at the first step: at its exit a program may have left the group."""
        self._rank, _ = rank_and_world()
        yield

    def send(self, ended: str) -> None:
        """Send what was learned; after the steps asked for, wait to be ended if that is asked."""
        rec = self._rec
        if self._sent or not rec.warmed or not rec.mine():
            return
        self._sent = True
        rec.leave_alone()
        if self._rank:
            if ended != "still":  # DDP holds its log while it waits
                self._send_times()
            return
        with _undisturbed() if ended == "exit" else nullcontext():
            self._report(ended)
        if ended == "steps" and rec.options.stop:
            rec.session.wire.receive()

    def timed(self) -> None:
        """A timed step is over: another rank than the first reports if it is time to."""
        if self._rank and self._schedule.due(self._rec.clock()["wall"]):
            self._send_times()

    def _send_times(self) -> None:
        from hotlap.seam.probe.ranks import rank_times

        with suppress(Exception):  # its group may be gone as it ends: what it sent before stands
            self._rec.session.wire.send("rank", **asdict(rank_times(self._rec, self._rank)))

    def stalled(self) -> None:
        """The training thread stands still: send what is known by now, and where it stands."""
        frame = sys._current_frames().get(self._rec.thread)
        self._stood_at = place(frame) if frame is not None else ""
        self.send("still")

    def _report(self, ended: str) -> None:
        from hotlap.seam.probe.result import payload

        rec = self._rec
        try:
            fields = asdict(payload(rec, ended)) | {"stood_at": self._stood_at}
        except Exception as error:
            rec.session.wire.send("broken", error=repr(error))
        else:
            rec.session.wire.send("profile", **fields)
        if ended == "exit" and getattr(sys, "last_type", None) is KeyboardInterrupt:
            _interrupted_again()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """A second Ctrl-C, as `timeout` sends it, does not break off the report of what is known."""
    mine = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    if not mine or before is None:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupted_again() -> None:
    """Have Python still end by SIGINT after an interrupt that nobody caught.

    It remembers the interrupt in a flag that any code which is run from a string (every dataclass
    of a module that is imported) clears, and sets when such code is left by an interrupt.
    """
    with suppress(KeyboardInterrupt):
        exec("raise KeyboardInterrupt")
