"""Racing one batch size against another: samples per second, pair by pair."""

from collections.abc import Callable
from statistics import median

from hotlap.batch.contender import Contender, Plan, TooLarge
from hotlap.batch.result import Row
from hotlap.core.errors import NotReachedError, TrialFailedError, UsageError
from hotlap.trial.stats import PairedTest

EQUAL = 0.02


class Track:
    """The reference, which is the first size that is raced, and its rivals."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._reference: Contender | None = None
        self._rate = 0.0
        self._tests: dict[int, PairedTest] = {}

    def close(self) -> None:
        """End what is live."""
        if self._reference is not None:
            self._reference.close()

    def paired(self, size: int) -> bool:
        """Whether a size has run in lockstep with the reference."""
        return size in self._tests

    def raced(self, size: int, pairs: int) -> Row:
        """Time a size; more pairs are added to those it has run before.

        A size at which the program fails for another reason than memory does not fit either.
        Where it does not fit beside the reference it is timed alone: on a machine that changes its
        pace that is worth less, and the row's interval is open.
        """
        if self._reference is None:
            return self._attempt(size, self._first)
        reference = self._reference
        row = self._attempt(size, lambda size: self._beside(reference, size, pairs))
        if row.fits:
            return row
        self.close()  # either of the two may have run out: once more, with all the memory
        return self._attempt(size, self._alone)

    def held(self, size: int, steps: int, *, warm: bool = False) -> Row:
        """Run so many steps of a size alone, untimed; `warm`: after its warm-up."""
        self.close()
        return self._attempt(size, lambda size: self._run(size, steps, warm=warm))

    def _run(self, size: int, steps: int, *, warm: bool) -> Row:
        rival = Contender(self.plan, size)
        try:
            if warm:
                rival.ready()
            rival.run(steps)
        finally:
            rival.close()
        return Row(size, True, step=rival.step, memory=rival.memory)

    def _attempt(self, size: int, action: Callable[[int], Row]) -> Row:
        try:
            return action(size)
        except TooLarge as error:
            return Row(size, fits=False, why=str(error))
        except (TrialFailedError, NotReachedError) as error:
            if self._reference is None:  # where even the first size fails, it is the program
                raise
            return Row(size, fits=False, why=f"the program failed: {error}")

    def _first(self, size: int) -> Row:
        contender = Contender(self.plan, size)
        try:
            contender.ready()
            self._check(contender)
            self._rate = 1 / median(contender.lap().pace for _ in range(3))
        except BaseException:
            contender.close()
            raise
        self._reference = contender
        return Row(size, True, self._rate, 1.0, 1.0, 1.0, contender.step, contender.memory)

    def _beside(self, reference: Contender, size: int, pairs: int) -> Row:
        rival = Contender(self.plan, size)
        test = self._tests.setdefault(size, PairedTest(EQUAL))
        try:
            rival.ready()
            self._check(rival)
            for index in range(pairs):
                order = (reference, rival) if index % 2 else (rival, reference)
                paces = {side.size: side.lap().pace for side in order}
                test.add(paces[reference.size], paces[size])
        except TooLarge:
            del self._tests[size]
            raise
        finally:
            rival.close()
        e = test.estimate()
        rate = self._rate * e.ratio
        return Row(size, True, rate, e.ratio, e.low, e.high, rival.step, rival.memory)

    def _alone(self, size: int) -> Row:
        rival = Contender(self.plan, size)
        try:
            rate = 1 / median(rival.lap().pace for _ in range(3))
        finally:
            rival.close()
        ratio = rate / self._rate
        return Row(size, True, rate, ratio, step=rival.step, memory=rival.memory)

    def _check(self, contender: Contender) -> None:
        """The option must have done what it was given for."""
        feeds = [loader for loader in contender.report["loaders"] if loader["feeds"]]
        if not self.plan.argument or not feeds:
            return
        size = feeds[0]["batch_size"]
        if size is not None and size != contender.size:
            raise UsageError(
                f"with {self.plan.argument!r} at {contender.size} the DataLoader at "
                f"{feeds[0]['place']} still has batch size {size}",
                "give the option of the script that sets its batch size",
            )
