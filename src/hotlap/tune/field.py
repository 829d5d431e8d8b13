"""The sides that are live, and the races between them."""

from dataclasses import replace

from hotlap.core.registry import technique
from hotlap.trial.race import Race, Rules, race
from hotlap.trial.side import Side
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

    def race(self, a: Side, b: Side, seconds: float, **more: object) -> Race:
        """Race B against A for at most so many seconds; `more` are further rules."""
        rules = Rules(min_effect=self.orders.min_effect, seconds=seconds)
        return race(a, b, replace(rules, **more), self.watcher.pair)  # type: ignore[arg-type]

    def close(self) -> None:
        """End whatever is live."""
        for side in self._live:
            side.close()
