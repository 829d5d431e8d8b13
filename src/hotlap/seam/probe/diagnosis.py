"""One thing to learn from a step or a few, outside of those that are timed."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotlap.seam.probe.recorder import Recorder


class Diagnosis:
    """`value` is what came of it, `note` why nothing did.

    It `lasts` so many steps.
    """

    name = ""
    lasts = 1

    def __init__(self, rec: "Recorder") -> None:
        self.rec = rec
        self.value: Any = None
        self.note = ""

    def begin(self) -> None:
        """A step begins."""

    def between(self) -> None:
        """A step that is not its last ends, and another begins."""

    def end(self) -> None:
        """Its last step ends."""
