"""What an engine needs to know of whatever is read."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from hotlap.data.loader.memory import Space
from hotlap.data.loader.plan import Step


@dataclass(frozen=True)
class Fetched:
    """A batch, and the samples of it that were bad and replaced, with the reasons."""

    value: Any
    replaced: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class Wish:
    """What the user asked for; None leaves the choice to the loader.

    `workers`: processes. `threads`: in each. `ahead`: batches that each process reads ahead.
    `worker_init`: called in each process with its number.
    """

    workers: int | None
    threads: int | None
    pin: bool
    ahead: int | None = None
    worker_init: Callable[[int], object] | None = None


class Reader(Protocol):
    """Reads batches: a pure function of the step, whichever process does it.

    `fills`: writes into the space it is handed. `threads`: may be used by several threads.
    `light`: reading is little more than copying, not worth a process. `changes`: it is a dataset of
    the user's, which is first read in a process of its own, and may be changed between epochs.
    """

    fills: bool
    threads: bool
    light: bool
    changes: bool

    def __len__(self) -> int: ...

    def identity(self) -> str:
        """Return what a saved state is checked against."""

    def state(self) -> object:
        """Return what differs when processes must be forked anew to see a change of the data."""

    def ahead(self, step: Step) -> None:
        """Hint that this step is read soon."""

    def fetch(self, step: Step, space: Space) -> Fetched:
        """Read a batch."""

    def present(self, value: Any) -> object:
        """Give a fetched batch the shape that the user sees."""
