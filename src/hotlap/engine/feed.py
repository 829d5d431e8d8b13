"""Reading a loader so that a killed run can take it up again where it stopped."""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from hotlap.engine.randomness import Randomness

State = dict[str, Any]


class Feed:
    """One pass over a loader that knows how far it is.

    `taken` counts the batches whose step is done; the loader may have been read further, for
    accumulation and prefetching. To resume, the random number streams are put back to where they
    were when the pass began, the batches are read again up to where the reading was, and the
    streams are set to where they were when the state was taken. That works for any loader that
    gives the same batches from the same random numbers: shuffling, augmentation and workers
    included. What it costs is reading the batches of a part of one pass.
    """

    def __init__(self, loader: Iterable[Any], position: State | None = None) -> None:
        self.loader = loader
        self.taken = 0
        self.over = False
        self._read = 0
        self._position = position
        self._random = Randomness(loader)
        self._begin: dict[str, Any] = {}

    def state(self) -> State:
        """Where it is, to be given to a Feed over the same loader in another process."""
        return {
            "begin": self._begin,
            "now": self._random.state(),
            "read": self._read,
            "taken": self.taken,
            "over": self.over,
        }

    def __iter__(self) -> Iterator[Any]:
        position = self._position
        if position is None:
            self._begin = self._random.state()
            yield from self._counted(iter(self.loader))
        elif position["over"]:  # saved behind the pass: nothing of it is left
            self._random.restore(position["now"])
        else:
            yield from self._again(position)
        self.over = True

    def _again(self, position: State) -> Iterator[Any]:
        self._begin, self.taken = position["begin"], position["taken"]
        self._random.restore(self._begin)
        reader = iter(self.loader)
        waiting = deque(
            self._counted(islice(reader, position["read"])), maxlen=position["read"] - self.taken
        )
        if self._read < position["read"]:
            raise ValueError(
                f"the loader had given {position['read']} batches when the state was saved, and "
                f"gives only {self._read} now: resume with the same data"
            )
        self._random.restore(position["now"])
        yield from waiting
        yield from self._counted(reader)

    def _counted(self, reader: Iterator[Any]) -> Iterator[Any]:
        for batch in reader:
            self._read += 1
            yield batch
