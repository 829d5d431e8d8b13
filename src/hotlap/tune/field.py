"""The sides that are live, and the races between them."""

from dataclasses import replace

from hotlap.core.errors import NotReachedError, TrialFailedError
from hotlap.core.registry import technique
from hotlap.trial.race import RaceResult, race
from hotlap.trial.side import Side
from hotlap.trial.stopping import StoppingRules
from hotlap.tune.budget import Budget
from hotlap.tune.candidates import Chosen
from hotlap.tune.orders import Orders, Watcher


class Field:
    """Makes sides, races them, and ends what is live."""

    def __init__(self, orders: Orders, watcher: Watcher) -> None:
        self.orders = orders
        self.watcher = watcher
        self.budget = Budget(orders.seconds, orders.spent)
        self._live: list[Side] = []

    def side(self, chosen: Chosen) -> Side:
        """The command with these techniques on; it is launched when it is first needed."""
        whole = any(technique(name).whole_epochs for name in chosen)
        side = Side(self.orders.setting.having(chosen), self.orders.patience, whole_epoch=whole)
        self._live.append(side)
        return side

    def drop(self, side: Side) -> None:
        """A side is not needed any more."""
        side.close()
        self._live = [other for other in self._live if other is not side]

    def race(self, a: Side, b: Side, seconds: float, **more: object) -> RaceResult:
        """Race B against A for at most so many seconds; `more` are further rules.

        Should it be A that fails, which has run well before, it is started once more.

        Raises:
            TrialFailedError: B failed, or A a second time.
            NotReachedError: no step of B was seen in time, or of A a second time.
        """
        plain = StoppingRules(self.orders.min_effect, seconds=seconds, launches=1)
        rules = replace(plain, **more)  # type: ignore[arg-type]
        try:
            return race(a, b, rules, self.watcher.pair)
        except (TrialFailedError, NotReachedError) as error:
            if not _not_its_fault(a, b):
                raise
            self.watcher.stage(f"what is raced against failed ({error}); once more from its start")
        return race(a, b, rules, self.watcher.pair)

    def close(self) -> None:
        """End whatever is live."""
        for side in self._live:
            side.close()


def _not_its_fault(a: Side, b: Side) -> bool:
    """Whether it was not B's techniques that made a race fail: A failed, or both are the same."""
    same = a.setting.techniques == b.setting.techniques
    return same or (a.trial is None and b.trial is not None)
