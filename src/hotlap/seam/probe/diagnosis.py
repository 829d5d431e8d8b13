"""One thing to learn from a step or a few, outside of those that are timed."""

from contextlib import ExitStack
from typing import Protocol
from weakref import WeakKeyDictionary, WeakSet

from torch.nn import Module
from torch.optim.optimizer import Optimizer
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode,
    _get_current_dispatch_mode_stack,
)

from hotlap.core.protocol import ProfileOptions
from hotlap.seam.participant import Participant
from hotlap.seam.probe.facts import Facts
from hotlap.seam.probe.timeline import Timeline


class Followed(Protocol):
    """The run that is profiled."""

    session: Participant
    options: ProfileOptions
    timeline: Timeline
    facts: Facts
    optimizers: WeakSet[Optimizer]
    made: WeakKeyDictionary[Module, str]


class OwnModeError(Exception):
    """The program runs under a dispatch mode of its own, whose end would leave another one."""

    def __str__(self) -> str:
        return "the program has a TorchDispatchMode of its own on"


class Diagnosis:
    """`value` is what came of it, `note` why nothing did.

    It `lasts` so many steps.
    """

    name = ""
    lasts = 1

    def __init__(self, rec: Followed) -> None:
        self.rec = rec
        self.value: object = None
        self.note = ""
        self._mode: TorchDispatchMode | None = None
        self._entered = ExitStack()

    def enter(self, mode: TorchDispatchMode) -> None:
        """Enter a mode.

        Raises:
            OwnModeError: the program is in one.
        """
        on = _get_current_dispatch_mode_stack()
        if any(not type(other).__module__.startswith("hotlap.") for other in on):
            raise OwnModeError
        self._entered.enter_context(mode)
        self._mode = mode

    def leave(self) -> None:
        """Leave the mode, if it is the innermost: within it the program may have entered one."""
        if self._mode is not None and _get_current_dispatch_mode() is self._mode:
            self._mode = None
            self._entered.close()

    def begin(self) -> None:
        """A step begins."""

    def between(self) -> None:
        """A step that is not its last ends, and another begins."""

    def end(self) -> None:
        """Its last step ends."""
