"""What a mode's part, and what it is made of, sees of the session that it runs in."""

from collections.abc import Callable
from typing import Protocol

from hotlap.core.protocol import Standing
from hotlap.core.spec import Spec
from hotlap.seam.roots import Roots
from hotlap.seam.switch import Switch
from hotlap.seam.wire import Wire


class Participant(Protocol):
    """One process of a trial."""

    spec: Spec
    wire: Wire
    roots: Roots
    switch: Switch
    at_exit: list[Callable[[], None]]

    def stepped(self) -> None:
        """Note that the first step is over."""

    def standing(self) -> Standing:
        """Return what each technique has come to."""
