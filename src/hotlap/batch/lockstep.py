"""Races one batch size against another in lockstep: seconds a sample, pair by pair."""

from collections.abc import Callable
from dataclasses import replace
from statistics import median

from hotlap.batch.batch_result import SizeResult
from hotlap.batch.contestant import Contestant, SizedCommand, TimedBlock, TooLarge
from hotlap.core.errors import NotReachedError, TrialFailedError, UsageError
from hotlap.trial.launch import spin
from hotlap.trial.stats import LAUNCH_SD, PairedTest

EQUAL_WITHIN = 0.02
SIZES_RACED = 6  # about as many as a search races; they share the chance of an error
CONFIDENCE_ALPHA = 0.05


class Lockstep:
    """Races contestants against the reference, which is the first size that is raced.

    `start_up` is the longest start-up of a trial so far, in seconds, `reference_rate` the samples
    per second of the reference. Once the machine is `busy`, all trials run with OpenMP threads that
    sleep while they wait.
    """

    def __init__(self, sized: SizedCommand, busy: Callable[[], bool] = lambda: False) -> None:
        self.sized = sized
        self._busy = busy
        self.start_up = 0.0
        self._reference: Contestant | None = None
        self.reference_rate = 0.0
        self._per_element = 0.0
        self._tests: dict[int, PairedTest] = {}

    def close(self) -> None:
        """End the reference's trial."""
        if self._reference is not None:
            self._reference.close()

    @property
    def asleep(self) -> bool:
        """Whether threads slept while they waited that would spin without us."""
        threads = self._reference.threads if self._reference is not None else 1
        return self.sized.setting.passive_wait and spin(threads)

    def _sleep_once_busy(self) -> None:
        """From the moment other programs want the cores, start everything anew, to sleep."""
        if self.sized.setting.passive_wait or not self._busy():
            return
        setting = replace(self.sized.setting, passive_wait=True)
        self.sized = replace(self.sized, setting=setting)
        if self._reference is not None:
            self._reference.close()
            self._reference = Contestant(self.sized, self._reference.size)
            self.reference_rate = 0.0

    @property
    def reference_live(self) -> bool:
        """Whether the reference need not be started for the next race."""
        return self._reference is not None and self._reference.live

    def paired(self, size: int) -> bool:
        """Whether a size has run in lockstep with the reference."""
        return size in self._tests

    def raced(self, size: int, pairs: int) -> SizeResult:
        """Time a size; a second call launches both sides again and adds to the pairs.

        A size at which the program fails for another reason than memory does not fit either.
        Where it does not fit beside the reference it is timed alone, and the interval is open; on
        a busy machine it is only seen to fit.
        """
        self._sleep_once_busy()
        if self._reference is None:
            return self._attempt(size, self._first)
        reference = self._reference
        result = self._attempt(size, lambda size: self._beside(reference, size, pairs))
        if result.fits:
            return result
        self.close()  # either of the two may have run out: once more, with all the memory
        return self._attempt(size, self._alone)

    def held(self, size: int, steps: int, *, warm: bool = False) -> SizeResult:
        """Run so many steps of a size alone, untimed; `warm`: after its warm-up."""
        self.close()
        return self._attempt(size, lambda size: self._run(size, steps, warm=warm))

    def _run(self, size: int, steps: int, *, warm: bool) -> SizeResult:
        contestant = Contestant(self.sized, size)
        try:
            if warm:
                contestant.ready()
            contestant.run(steps)
        finally:
            self._ended(contestant)
        return SizeResult(size, True, step=contestant.step, memory=contestant.memory)

    def _ended(self, contestant: Contestant) -> None:
        self.start_up = max(self.start_up, contestant.start_up)
        contestant.close()

    def _attempt(self, size: int, action: Callable[[int], SizeResult]) -> SizeResult:
        try:
            return action(size)
        except TooLarge as error:
            return SizeResult(size, fits=False, why=str(error))
        except (TrialFailedError, NotReachedError) as error:
            if self._reference is None:  # where even the first size fails, it is the program
                raise
            return SizeResult(size, fits=False, why=f"the program failed: {error}")

    def _first(self, size: int) -> SizeResult:
        contestant = Contestant(self.sized, size)
        try:
            contestant.ready()
            self._check_argument(contestant)
            blocks = [contestant.timed() for _ in range(3)]
            self._calibrate(contestant, blocks)
            self._rated(contestant, blocks)
            samples = self._samples_a_step(contestant, blocks)
        except BaseException:
            contestant.close()
            raise
        self._reference = contestant
        self.start_up = contestant.start_up
        return SizeResult(size, True, self.reference_rate, 1.0, 1.0, 1.0, contestant.step,
                          contestant.memory, samples=samples)  # fmt: skip

    def _calibrate(self, contestant: Contestant, blocks: list[TimedBlock]) -> None:
        """Samples an element of the model's input, for programs without a DataLoader.

        By the option alone a program that keeps its effective batch with more or fewer
        micro-batches would seem to train on more samples a step than it does.
        """
        elements = sum(block.elements for block in blocks)
        samples = contestant.size * contestant.world * sum(block.steps for block in blocks)
        self._per_element = samples / elements if elements else 0.0

    def _rated(self, contestant: Contestant, blocks: list[TimedBlock]) -> None:
        self.reference_rate = 1 / median(self._pace(contestant, block) for block in blocks)

    def _pace(self, contestant: Contestant, block: TimedBlock) -> float:
        """Seconds a sample."""
        return block.seconds / self._samples(contestant, block)

    def _samples(self, contestant: Contestant, block: TimedBlock) -> float:
        samples = block.samples or block.elements * self._per_element
        return samples or contestant.size * contestant.world * block.steps

    def _samples_a_step(self, contestant: Contestant, blocks: list[TimedBlock]) -> float:
        samples = sum(self._samples(contestant, block) for block in blocks)
        return samples / sum(block.steps for block in blocks)

    def _beside(self, reference: Contestant, size: int, pairs: int) -> SizeResult:
        contestant = Contestant(self.sized, size)
        test = self._tests.get(size)
        if test is None:
            test = self._tests[size] = PairedTest(
                EQUAL_WITHIN, CONFIDENCE_ALPHA, SIZES_RACED, launch_sd=LAUNCH_SD
            )
        else:
            reference.close()
            test.relaunched()
        try:
            contestant.ready()
            self._check_argument(contestant)
            if not self.reference_rate:
                self._rated(reference, [reference.timed() for _ in range(3)])
            blocks = [
                self._pair(test, reference, contestant, contestant_first=index % 2 == 0)
                for index in range(pairs)
            ]
        except TooLarge:
            del self._tests[size]
            raise
        finally:
            self._ended(contestant)
        e = test.estimate()
        rate, samples = self.reference_rate * e.ratio, self._samples_a_step(contestant, blocks)
        return SizeResult(size, True, rate, e.ratio, e.low, e.high, contestant.step,
                          contestant.memory, samples=samples)  # fmt: skip

    def _pair(
        self, test: PairedTest, reference: Contestant, other: Contestant, *, contestant_first: bool
    ) -> TimedBlock:
        """Add a pair to the test; returns the block of `other`."""
        order = (other, reference) if contestant_first else (reference, other)
        blocks = {side.size: side.timed() for side in order}
        a, b = blocks[reference.size], blocks[other.size]
        test.add(self._pace(reference, a), self._pace(other, b), a.stretch, b.stretch)
        return b

    def _alone(self, size: int) -> SizeResult:
        contestant = Contestant(self.sized, size)
        try:
            blocks = [contestant.timed() for _ in range(3)]
        finally:
            self._ended(contestant)
        if self._busy():  # what was timed at another load cannot be compared
            return SizeResult(size, True, step=contestant.step, memory=contestant.memory)
        rate = 1 / median(self._pace(contestant, block) for block in blocks)
        return SizeResult(size, True, rate, rate / self.reference_rate, step=contestant.step,
                          memory=contestant.memory, alone=True,
                          samples=self._samples_a_step(contestant, blocks))  # fmt: skip

    def _check_argument(self, contestant: Contestant) -> None:
        """The option must have had its effect."""
        loaders = contestant.report.loaders if contestant.report else []
        feeds = [loader for loader in loaders if loader.feeds]
        if not self.sized.argument or not feeds:
            return
        size = feeds[0].batch_size
        if size is not None and size != contestant.size:
            raise UsageError(
                f"with {self.sized.argument!r} at {contestant.size} the DataLoader at "
                f"{feeds[0].place} still has batch size {size}",
                "give the option of the script that sets its batch size",
            )
