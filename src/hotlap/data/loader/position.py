"""Where a loader is in its data, and how that is saved."""

from typing import Any

from hotlap.data.loader.plan import BatchPlan, Plan

_SAME = ("version", "seed", "shuffle", "count", "data")


class Position:
    """The epoch, and how many of its samples all ranks were handed.

    What was read ahead does not count. The first pass, and that after `resume`, begins here; every
    other one begins the next epoch.
    """

    def __init__(self) -> None:
        self.at = (0, 0)
        self._here = True

    def begin(self, plan: Plan | BatchPlan) -> tuple[int, int]:
        """Return (epoch, samples already delivered) of the pass that begins."""
        epoch, delivered = self.at
        if not self._here or (delivered and self.over(plan)):
            epoch, delivered = epoch + 1, 0
        self._here = False
        self.at = epoch, delivered
        return epoch, delivered

    def over(self, plan: Plan | BatchPlan) -> bool:
        """Whether the epoch has no batch left."""
        left = plan.count - self.at[1]
        return left < plan.batch_size * plan.world if plan.drop_last else not left

    def reach(self, epoch: int, delivered: int) -> None:
        """Note that a batch was handed out."""
        self.at = epoch, delivered

    def state(self, about: dict[str, object]) -> dict[str, object]:
        """Return it to be saved, with what says of which data and order it is."""
        epoch, delivered = self.at
        return {"version": 1, **about, "epoch": epoch, "delivered": delivered}

    def resume(self, state: dict[str, Any], about: dict[str, object]) -> None:
        """Go to a saved place.

        Raises:
            ValueError: it is of other data, or of another order.
        """
        own = self.state(about)
        for name in _SAME:
            if state.get(name) != own[name]:
                raise ValueError(
                    f"the saved state has {name} {state.get(name)!r}, this loader {own[name]!r}: "
                    "it would go on with other samples"
                )
        self.at = state["epoch"], state["delivered"]
        self._here = True
