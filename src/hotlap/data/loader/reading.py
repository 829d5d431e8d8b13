"""What an engine needs to know of whatever is read."""

from dataclasses import dataclass
from typing import Any, Protocol

from hotlap.data.loader.memory import Space
from hotlap.data.loader.plan import Step


@dataclass(frozen=True)
class Fetched:
    """A batch, and the samples of it that were bad and replaced, with the reasons."""

    value: Any
    replaced: tuple[tuple[int, str], ...] = ()


class Reader(Protocol):
    """Reads batches: a pure function of the step, whichever process does it.

    `fills`: writes into the space it is handed. `threads`: may be used by several threads.
    `light`: reading is little more than copying, not worth a process. `changes`: what it reads may
    be changed by the user between epochs, so that processes are forked anew for each.
    """

    fills: bool
    threads: bool
    light: bool
    changes: bool

    def __len__(self) -> int: ...

    def identity(self) -> str:
        """Return what a saved state is checked against."""

    def ahead(self, step: Step) -> None:
        """Hint that this step is read soon."""

    def fetch(self, step: Step, space: Space) -> Fetched:
        """Read a batch."""

    def present(self, value: Any) -> Any:
        """Give a fetched batch the shape that the user sees."""
