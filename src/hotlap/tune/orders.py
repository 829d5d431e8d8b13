"""What a search is asked for, and who looks on."""

from dataclasses import dataclass
from typing import Protocol

from hotlap.trial.launch import Setting
from hotlap.trial.stats import Estimate
from hotlap.tune.candidates import Values, Wanted
from hotlap.tune.result import Outcome


class Watcher(Protocol):
    """Sees the search as it goes on."""

    def stage(self, text: str) -> None:
        """A new stage began."""

    def racing(self, name: str, values: Values) -> None:
        """A candidate is being started."""

    def pair(self, estimate: Estimate) -> None:
        """One more pair of blocks was run."""

    def row(self, outcome: Outcome) -> None:
        """A technique's fate is known."""


@dataclass(frozen=True)
class Orders:
    """What to search: the plain command, what is wanted, and how long it may take.

    Of the `seconds` in all, `spent` were over before the search began.
    """

    setting: Setting
    wanted: Wanted
    seconds: float
    min_effect: float = 0.02
    patience: float = 120.0
    spent: float = 0.0
