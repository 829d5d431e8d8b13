"""The marks of the step that is under way. On the hot path: a mark costs about 0.2 us."""

from time import perf_counter_ns

from hotlap.seam.probe.evaluations import Evaluations
from hotlap.seam.probe.phases import (
    BACKWARD,
    CHECKING,
    EVALUATION,
    FORWARD,
    LOSS,
    OPTIMIZER,
    REST,
    Marks,
)


class Timeline:
    """Collects marks, a code and a time in nanoseconds each, until the step ends.

    `now` is the code of the latest mark. `base` is what a boundary returns to: REST, or OPTIMIZER
    while an optimizer runs a closure.
    """

    def __init__(self) -> None:
        self.now = REST
        self.base = REST
        self.backwards = 0
        self.codes = [REST]
        self.times = [perf_counter_ns()]
        self.evaluations = Evaluations(lambda: len(self.codes))

    def mark(self, code: int) -> None:
        """From now on it is `code`."""
        self.now = code
        self.codes.append(code)
        self.times.append(perf_counter_ns())

    def unmark(self, back: int) -> None:
        """The latest mark was for nothing: it is `back` as before."""
        self.now = back
        self.codes.pop()
        self.times.pop()

    def begin_forward(self) -> None:
        """A training forward begins."""
        self.evaluations.training()
        self.mark(FORWARD)

    def end_forward(self) -> None:
        """It is over; what follows may be the loss."""
        self.mark(LOSS)

    def begin_evaluation(self, root: int) -> None:
        """A forward begins that looks like an evaluation's."""
        self.evaluations.forward(root)
        self.mark(EVALUATION)

    def end_evaluation(self) -> None:
        """It is over."""
        self.mark(LOSS if self.evaluations.in_training else CHECKING)
        self.evaluations.reached()

    def begin_backward(self) -> bool:
        """Backward begins; True if it trains on what looked like an evaluation."""
        trains = self.evaluations.backward()
        self.backwards += 1
        self.mark(BACKWARD)
        return trains

    def begin_optimizer(self) -> None:
        """An optimizer step begins; a closure inside may run the boundaries of a step."""
        self.base = OPTIMIZER
        self.mark(OPTIMIZER)

    def end_optimizer(self) -> None:
        """It is over."""
        self.base = REST
        self.mark(REST)

    def close(self) -> Marks:
        """The step ends here: its marks, to be folded later."""
        self.times.append(perf_counter_ns())
        return self.codes, self.times, self.evaluations.close()

    def reopen(self) -> None:
        """The next step begins here; what the probe did since `close` belongs to no step."""
        self.codes = [self.now]
        self.times = [perf_counter_ns()]

    def watch_memory(self, *, on: bool) -> None:
        """Note the device's peak memory in each phase; the CPU's is read by the sampler."""

    def restart(self) -> None:
        """What was measured so far does not count."""
