"""One process of a trial: reads its orders, waits for torch, applies techniques, takes its part.

A process that never imports torch only has the guard on its writes. One that imports torch but
never steps an optimizer (a launcher, a loader worker) has patches that nothing calls.
"""

import mmap
import os
import random
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress

from hotlap.core.protocol import Standing
from hotlap.core.spec import REACHED, Mode, Spec, Tier
from hotlap.seam.hook import when_imported
from hotlap.seam.reseed import reseeding
from hotlap.seam.tracebacks import hide_our_frames
from hotlap.seam.wire import LONGEST_ADDRESS_BYTES, Wire

NO_PROCESS = -1


def boot(path: str) -> None:
    """Called by sitecustomize in every Python process of a trial."""
    spec = Spec.read(path)
    hide_our_frames()
    reached = f"{os.path.dirname(path)}/{REACHED}"
    note_reached(reached)
    os.register_at_fork(after_in_child=lambda: note_reached(reached))
    if spec.scratch:
        from hotlap.seam.guard.trackers import switch_off

        switch_off(spec.scratch)
        # Sockets of a process that is killed lie in the trial's folder, which is removed.
        if len(os.fsencode(reached)) + len("/listener-12345678") <= LONGEST_ADDRESS_BYTES:
            when_imported(
                "multiprocessing.process",
                lambda module: module.current_process()._config.setdefault("tempdir", reached),
            )
    if spec.tier is Tier.OVERLAY:
        from hotlap.seam.guard.crossing import install as let_renames_cross

        let_renames_cross()
    elif spec.tier is not Tier.OFF:
        from hotlap.seam.guard import default_keep, install

        install(spec.scratch, [*default_keep(), *spec.keep], spec.cover)
    when_imported("torch", lambda _: start(spec))


def note_reached(folder: str) -> None:
    """Leave a file named by this process: hotlap is in it. A forked one may outlive its parent."""
    with suppress(OSError):
        os.close(os.open(f"{folder}/{os.getpid()}", os.O_CREAT, 0o600))


def start(spec: Spec) -> None:
    """Torch is there: apply the techniques and begin the mode's part, for the process's life."""
    from hotlap.seam.process import at_exit

    session = Session(spec)
    if session.takes_part(session.enter):
        at_exit(session.leave)  # which also keeps the session, and its undo, alive


class Session:
    """The seams of one process and what took hold in it."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.wire = Wire(spec.control)
        self.holds: dict[str, list[str]] = {}
        self.inerts: dict[str, str] = {}
        self._waiting: dict[str, str] = {}
        self.undo = ExitStack()
        self._stepped_in = NO_PROCESS
        self._watches_roots = False
        self.at_exit: list[Callable[[], None]] = []
        self._pid = os.getpid()
        # Shared with forked processes: what takes hold in a loader worker is seen here as well.
        self._in_forks = mmap.mmap(-1, len(spec.techniques) or 1)
        from hotlap.seam.roots import Roots
        from hotlap.seam.switch import Switch

        self.roots = Roots()
        self.switch = Switch(self.roots, self._apply_live)

    def takes_part(self, begin: Callable[[], None]) -> bool:
        """Call `begin`; where it fails, say so and let the program run as it is."""
        try:
            begin()
        except Exception as error:
            self.wire.send("broken", error=repr(error))
            self.undo.close()
            print(f"hotlap: could not take part in this process: {error!r}", file=sys.stderr)
            return False
        return True

    def enter(self) -> None:
        """Seed, apply the techniques, begin the mode's part: later, where a cell is awaited."""
        from hotlap.seam.cell import CELL
        from hotlap.seam.rendezvous import ports_of_its_own

        _seed(self.spec.seed)
        if self.spec.mode in {Mode.RACE, Mode.BATCH}:  # of which several run at a time
            self.undo.enter_context(ports_of_its_own(os.path.dirname(self.spec.control)))
        self.undo.enter_context(reseeding(self.spec.options.get("reseed", 0)))
        for name in _innermost_first(self.spec.techniques):
            self._apply(name, self.spec.techniques[name], self.undo)
        if CELL.awaited:
            self._watch_roots()
            CELL.when_it_begins(self._cell_begins)
        else:
            self._begin_part()
        self.wire.send("before" if CELL.awaited else "torch")

    def _begin_part(self) -> None:
        from hotlap.seam.modes import part

        self.undo.enter_context(part(self))
        self._watch_roots()

    def _watch_roots(self) -> None:
        """Look for roots, if anybody asked for them; known ones get what was asked for since."""
        if self._watches_roots:
            self.roots.wrap_again()
            self.roots.expect()
        elif self.roots.wanted:
            self.undo.enter_context(self.roots.watching())
            self._watches_roots = True

    def _cell_begins(self) -> None:
        if self.takes_part(self._begin_part):
            self.wire.send("cell")

    def _apply_live(self, name: str, values: dict[str, object], undo: ExitStack) -> None:
        self._apply(name, values, undo, live=True)

    def _apply(
        self, name: str, values: dict[str, object], undo: ExitStack, *, live: bool = False
    ) -> None:
        """Apply one technique until `undo` is closed; if it fails, undo it alone and say so.

        `live`: the program has made its models and optimizers already.
        """
        from hotlap.core.registry import technique
        from hotlap.seam.moves import Context, applied

        context = Context(name, values, self, live=live)
        with ExitStack() as moves:
            try:
                for move in technique(name).moves:
                    moves.enter_context(applied(move, context))
            except Exception as error:
                context.failed(error)
            else:
                undo.enter_context(moves.pop_all())

    def held(self, name: str, note: str = "") -> None:
        """A technique took hold; remember where, a few times."""
        notes = self.holds.setdefault(name, [])
        if note and len(notes) < 8 and note not in notes:
            notes.append(note)
        if os.getpid() != self._pid and name in self.spec.techniques:
            self._in_forks[list(self.spec.techniques).index(name)] = 1

    def inert(self, name: str, reason: str) -> None:
        """A technique found that it cannot work here."""
        self.inerts.setdefault(name, reason)

    def waits(self, name: str, reason: str) -> None:
        """What a technique acts on has yet to come (`reason`), or has come (empty)."""
        self._waiting[name] = reason

    def standing(self) -> Standing:
        """What each technique has come to, here and in forked processes, for the parent."""
        for index, name in enumerate(self.spec.techniques):
            if self._in_forks[index]:
                self.holds.setdefault(name, ["in a process of its own"])
        return {"held": self.holds, "inert": self.inerts}

    def stepped(self) -> None:
        """The first step is over: in run mode, tell the parent what took hold."""
        self._stepped_in = os.getpid()
        self.wire.send("step", **self.standing())

    def leave(self) -> None:
        """The process ends: report what took hold since its first step.

        Without one (a program that does not train), what took hold is reported now.
        """
        for call in self.at_exit:
            call()
        idle = self._stepped_in == NO_PROCESS and self._pid == os.getpid() and self.holds
        if self.spec.mode is Mode.RUN and (self._stepped_in == os.getpid() or idle):
            self._stepped_in, self._pid = NO_PROCESS, NO_PROCESS
            standing = self.standing()
            early = {n: why for n, why in self._waiting.items() if why and n not in self.holds}
            self.wire.send("end", held=standing["held"], inert=early | standing["inert"])


def _innermost_first(names: Iterable[str]) -> list[str]:
    """Techniques that join others first: lying inside, they see what the others put in."""
    from hotlap.core.registry import technique

    return sorted(names, key=lambda name: not technique(name).joins)


def _seed(seed: int | None) -> None:
    """Seed what the script may not seed itself; its own seeds come later and win."""
    if seed is None:
        return
    import torch

    torch.manual_seed(seed)
    random.seed(seed)
    os.environ.setdefault("PL_GLOBAL_SEED", str(seed))
    when_imported("numpy", lambda numpy: numpy.random.seed(seed % 2**32))
