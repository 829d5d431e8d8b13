"""Reading a loader so that a killed run can take it up again where it stopped."""

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

from hotlap.data import Loader
from hotlap.engine.random_state import Randomness
from hotlap.engine.states import State


class Feed:
    """One pass over a loader that knows how far it is.

    `taken` counts the batches whose step is done; the loader may have been read further, for
    accumulation and prefetching. A `hotlap.data.Loader` is set to where it was, in whichever number
    of ranks. With any other, the random number streams are put back to where they were when the
    pass began, the batches are read again up to where the reading was, and the streams are set to
    where they were when the state was taken. That works for any loader that gives the same batches
    from the same random numbers: shuffling, augmentation and workers included. What it costs is
    reading the batches of a part of one pass. The state of a loader without a length is taken when
    its next batch has been read; one that draws from the global streams in the training process
    then gives that batch other numbers after a resume.
    """

    def __init__(self, loader: Iterable[object], position: State | None = None) -> None:
        self.loader = loader
        self.taken = 0
        self.over = False
        self._read = 0
        self._position = position
        self._random = Randomness(loader)
        self._begin: dict[str, object] = {}
        self._ours = loader if isinstance(loader, Loader) else None
        self._places: deque[tuple[int, int]] = deque()  # of batches read, not yet taken
        self._place: tuple[int, int] | None = None

    def state(self) -> State:
        """Where it is, to be given to a Feed over the same loader in another process."""
        return {
            "begin": self._begin,
            "now": self._random.state(),
            "read": self._read,
            "taken": self.taken,
            "over": self.over,
            "loader": self._loader_state(),
        }

    @property
    def through(self) -> bool:
        """Whether the pass is over and the step of its last batch is done."""
        if not self.over:  # left by `break`: it is over where a length says so
            with suppress(TypeError, NotImplementedError):
                return self.taken >= len(self.loader)  # type: ignore[arg-type]
        return self.over and self.taken == self._read

    @property
    def goes_on(self) -> bool:
        """Whether a length says that the pass has further batches."""
        with suppress(TypeError, NotImplementedError):
            return self.taken < len(self.loader)  # type: ignore[arg-type]
        return False

    def next(self) -> State | None:
        """What a Feed over the next pass is given in another process, if it has to know."""
        loader, kept = self._loader_state(), self._random.kept()
        return {"begins": loader, "kept": kept} if loader or kept else None

    def take(self, batches: int) -> None:
        """The step of so many more batches is done."""
        self.taken += batches
        for _ in range(batches if self._ours else 0):
            self._place = self._places.popleft()

    def _loader_state(self) -> State | None:
        if self._ours is None or self._place is None:
            return None
        epoch, delivered = self._place
        return {**self._ours.state_dict(), "epoch": epoch, "delivered": delivered}

    def __iter__(self) -> Iterator[Any]:
        position = self._position or {}
        if self._ours is not None and (saved := position.get("loader") or position.get("begins")):
            self._ours.load_state_dict(saved)
            self._place = self._ours.place
        if not position or "begins" in position:
            self._random.restore_kept(position.get("kept", []))
            self._begin = self._random.state()
            yield from self._counted(iter(self.loader))
        elif _nothing_left(position):  # saved behind the pass
            self._restore(position)
        elif self._ours is not None and position["loader"]:
            yield from self._onwards(self._ours, position)
        else:
            yield from self._again(position)
        self.over = True

    def _onwards(self, loader: Loader, position: State) -> Iterator[object]:
        """Go on in a loader that stands where it stood."""
        self._begin, self.taken = position["begin"], position["taken"]
        self._read = self.taken
        self._restore(position)
        if not loader.through:  # or it would begin the next pass
            yield from self._counted(iter(loader))

    def _again(self, position: State) -> Iterator[object]:
        """Read once more what was read, and go on."""
        if position["now"] is None:
            raise ValueError(
                "the checkpoint was saved in the middle of a pass by another number of ranks, and "
                f"a {type(self.loader).__name__} cannot be cut anew: use hotlap.data.Loader, or "
                "resume with as many ranks"
            )
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
        if position["over"]:  # the end of the reader had been met when the state was taken
            deque(reader, maxlen=0)
        self._random.restore(position["now"])
        yield from waiting
        yield from self._counted(reader)

    def _restore(self, position: State) -> None:
        if position["now"] is not None:
            self._random.restore(position["now"])

    def _counted(self, reader: Iterator[object]) -> Iterator[Any]:
        for batch in reader:
            self._read += 1
            if self._ours is not None:
                self._places.append(self._ours.place)
            yield batch


def _nothing_left(position: State) -> bool:
    """Whether the pass is over: all that was read was taken, not only read ahead."""
    return bool(position["over"]) and position["taken"] == position["read"]


def elsewhere(position: State | None) -> State | None:
    """A position of one rank as it holds for a world of another size: without random numbers."""
    if position is None:
        return None
    if "begins" in position:
        return {"begins": position["begins"]} if position["begins"] else None
    fresh = not (position["taken"] or _nothing_left(position) or position["loader"])
    return None if fresh else {**position, "begin": {}, "now": None}


def tell_epoch(loader: object, epoch: int) -> None:
    """Let samplers that shuffle by epoch (DistributedSampler) know which it is."""
    sampler = getattr(loader, "sampler", None)
    if sampler is not None and hasattr(sampler, "set_epoch"):
        sampler.set_epoch(epoch)
