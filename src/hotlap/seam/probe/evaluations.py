"""Which marks of a step belong to an evaluation, and which only looked like it.

A forward without gradients or in evaluation mode is the sign. But a frozen teacher, a momentum
encoder or a model that trains in evaluation mode gives it too: in those, a training forward or a
backward pass follows on the same batch. So a sign only counts once another batch is asked for or,
in loops without a DataLoader, once the same module is called again, in whichever mode.

A validation that forgets both is recognised by what does not follow: another batch is asked for,
and no backward pass runs through the forward's graph before the step ends.

A program that asks its model in training mode without a DataLoader, step after step, does so for
its training: for what to do in an environment, or for targets.
"""

from contextlib import suppress
from types import CodeType

from torch.autograd.graph import Node

from hotlap.seam.probe.phases import LOADER, Range
from hotlap.seam.where import Lines

ASKS = 3
"""Steps in a row that ask the model in training mode, after which it is no evaluation."""


class Unused:
    """Marks of a training forward behind which another batch was asked for.

    `trained`: a backward pass ran through its graph after all, as where losses are summed.
    """

    def __init__(self, begin: int, end: int) -> None:
        self.range = (begin, end)
        self.trained = False

    def __call__(self, *_: object) -> None:
        """Autograd runs through the graph."""
        self.trained = True


class Evaluations:
    """Follows one step; indices point into the timeline's marks.

    `going_on`: an evaluation has been recognised and is not over. `in_training`: a training
    forward has begun whose backward pass has not. `special`: a loader was started in this step, a
    file was saved, or a forward looked like an evaluation's. `made` is the graph node behind the
    latest training forward, `called_at` the lines that led to it; `unused_at` those of one without
    a backward; `trained_at` all lines that led to forwards with one.
    """

    def __init__(self, codes: list[int]) -> None:
        self._codes = codes
        self._ranges: list[Range] = []
        self._asks: list[Range] = []
        self._asking = 0
        self._batch = -1
        self._fresh = False
        self._loaders = False
        self.in_training = False
        self.special = False
        self.made: Node | None = None
        self.called_at: Lines = ()
        self.unused_at: Lines | None = None
        self.trained_at: set[tuple[CodeType, int]] = set()
        self._trained_from = -1
        self._unused: list[Unused] = []
        self._start_over()

    def _start_over(self) -> None:
        self._from = -1
        self._to = -1
        self._before = -1
        self._root = 0
        self._train_mode = True
        self.going_on = False

    def asked(self, code: int) -> None:
        """A batch is asked for or a loader started (`code`); its mark comes next."""
        self._loaders = True
        if self.in_training:
            self._forward_unused()
        self.in_training = False
        if self._from >= 0:
            self.going_on = True
        if code == LOADER or not self._fresh:
            self._batch = len(self._codes)
        self._fresh = code == LOADER
        self.special = self.special or self._fresh

    def _forward_unused(self) -> None:
        """No backward has followed a training forward: an evaluation, unless one still does."""
        made, self.made = self.made, None
        if made is None:
            return
        found = Unused(self._trained_from, len(self._codes))
        with suppress(Exception):  # an odd graph tells nothing
            made.register_prehook(found)
            self._unused.append(found)
            self.special = True
            self.unused_at = self.called_at

    def exhausted(self) -> None:
        """The loader that was asked has no more; it was the evaluation's, if one is going on."""
        if self.going_on:
            self._to = len(self._codes)
            self._end()

    def forward(self, root: int, *, train_mode: bool = False) -> None:
        """An evaluation-like forward of the module `root` begins; its mark comes next."""
        self.special = True
        if self.in_training:  # a teacher that looks at the batch its student was given
            return
        if self._from < 0:
            self._from = len(self._codes) if self._batch < 0 else self._batch
            self._root = root
        elif not self._loaders and root == self._root:
            self.going_on = True
        self._before = self._to
        self._train_mode &= train_mode

    def reached(self) -> None:
        """That forward is over; its closing mark has been made."""
        if self._from >= 0:
            self._to = len(self._codes) - 1

    def training(self, root: int = 0) -> None:
        """A training forward of the module `root` begins: what was only a sign is none.

        But where the same module has been looked at in evaluation mode and nothing was trained on
        that, as where each epoch is one step on a whole graph.
        """
        if self._from >= 0:
            self.going_on |= not self._loaders and root == self._root
            self._end()
        if not self.in_training:
            self._trained_from = len(self._codes) if self._batch < 0 else self._batch
        self._batch = -1
        self.in_training = True

    def backward(self) -> bool:
        """A backward begins: the latest evaluation-like forward was training. True if so."""
        trains = self._from >= 0
        if trains:
            self._to = self._before
            self._end()
        self._batch = -1
        self.in_training = False
        self.made = None
        if self.called_at:
            self.trained_at.update(self.called_at)
            self.called_at = ()
        return trains

    def _end(self) -> None:
        if self.going_on and self._to > self._from:
            asks = self._train_mode and not self._loaders
            (self._asks if asks else self._ranges).append((self._from, self._to))
        self._start_over()

    def over(self) -> None:
        """The step is over."""
        self._batch = -1
        self._fresh = self.in_training = self.special = False
        self.made = None

    def close(self) -> list[Range]:
        """The step is over: its evaluations."""
        if self._from >= 0:
            self._end()
        self.over()
        self._asking = self._asking + 1 if self._asks else 0
        self._ranges += self._asks if self._asking <= ASKS else ()
        self._asks = []
        if self._unused:
            unused = [each.range for each in self._unused if not each.trained]
            self._unused = []
            if unused:
                self._ranges += unused
            else:
                self.unused_at = None
        if not self._ranges:
            return []
        found, self._ranges = self._ranges, []
        return found
