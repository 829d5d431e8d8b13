"""One thing to learn from a step or a few, outside of those that are timed."""

from typing import Protocol
from weakref import WeakKeyDictionary, WeakSet

from torch.nn import Module
from torch.optim.optimizer import Optimizer

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

    def begin(self) -> None:
        """A step begins."""

    def between(self) -> None:
        """A step that is not its last ends, and another begins."""

    def end(self) -> None:
        """Its last step ends."""
