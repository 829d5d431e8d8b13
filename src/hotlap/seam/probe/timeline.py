"""The marks of the step that is under way. On the hot path: a mark costs about 0.1 us."""

from collections.abc import Callable
from time import perf_counter_ns

from hotlap.seam.probe.evaluations import Evaluations
from hotlap.seam.probe.phases import CHECKING, EVALUATION, LOSS, OTHER, RESTING, Marks

Marker = Callable[[int], None]


class Timeline:
    """Collects marks, a code and a time in nanoseconds each, until the step ends.

    `mark(code)` says that from now on it is `code`. The lists stay the same objects, so that
    boundaries may hold them. `base` is what a boundary returns to: OTHER, or OPTIMIZER while an
    optimizer runs a closure. `backwards` counts backward passes. Boundaries that every step crosses
    append to `codes` and `times` themselves, in this order, rather than call `mark`. While it
    rests, its only code is RESTING, in which no boundary begins.
    """

    may_rest = True

    def __init__(self) -> None:
        self.base = OTHER
        self.backwards = 0
        self.codes = [OTHER]
        self.times = self._stamps()
        self.times[:] = (perf_counter_ns(),)
        self.evaluations = Evaluations(self.codes)
        self.mark = self._marker()

    def _stamps(self) -> list[int]:
        """The list that the times are kept in."""
        return []

    def _marker(self) -> Marker:
        codes, times, clock = self.codes, self.times, perf_counter_ns

        def mark(code: int) -> None:
            codes.append(code)
            times.append(clock())

        return mark

    def unmark(self) -> None:
        """The latest mark was for nothing."""
        self.codes.pop()
        self.times.pop()

    def begin_evaluation(self, root: int, *, train_mode: bool) -> None:
        """A forward begins that looks like an evaluation's."""
        self.evaluations.forward(root, train_mode=train_mode)
        self.mark(EVALUATION)

    def end_evaluation(self) -> None:
        """It is over."""
        self.mark(LOSS if self.evaluations.in_training else CHECKING)
        self.evaluations.reached()

    def close(self) -> Marks:
        """The step ends here: its marks, to be folded later."""
        self.times.append(perf_counter_ns())
        return self.codes[:], self.times[:], self.evaluations.close()

    def rest(self) -> None:
        """From here on nothing is marked."""
        self.codes[:] = (RESTING,)
        self.times[:] = (perf_counter_ns(),)

    def reopen(self, begin: int = 0) -> None:
        """The next step begins here, or began at `begin`.

        What the probe did since `close` belongs to no step.
        """
        self.base = OTHER
        self.codes[:] = (OTHER,)
        self.times[:] = (begin or perf_counter_ns(),)

    def watch_memory(self, *, on: bool) -> None:
        """Note the device's peak memory in each phase; the CPU's is read by the sampler."""

    def restart(self) -> None:
        """What was measured so far does not count."""
