"""Find the commit that slowed a training step: a binary search whose steps are races.

Each candidate is raced against the fast revision until it is shown to lie on one side of the
middle between fast and slow, the geometric mean of 1 and the slow revision's ratio. A commit that
no race can place (the program fails, or the interval stays too wide) is left out, and the answer
is then the range of commits that remains.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from hotlap.trial.revisions import Commit


class Speed(StrEnum):
    """What a race said of a commit."""

    FAST = "fast"
    SLOW = "slow"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Step:
    """One race of the search: how a commit steps against the fast revision.

    `ratio` is the fast revision's time over the commit's (below 1: the commit is slower), with its
    interval; nan where there was no race. `reason` says why a commit could not be placed.
    """

    commit: Commit
    speed: Speed
    ratio: float
    low: float
    high: float
    reason: str = ""


@dataclass(frozen=True)
class Bisection:
    """The outcome: the commits that may have slowed the step, oldest first; one when it is known.

    Empty where the last commit is not slower than the fast revision.
    """

    suspects: tuple[Commit, ...]
    steps: tuple[Step, ...]
    interrupted: bool = False


@dataclass
class Search:
    """A search over `commits`, oldest first; the last one is known to be slow.

    `measure` races one commit. `on_step` is called after each race.
    """

    commits: Sequence[Commit]
    measure: Callable[[Commit], Step]
    on_step: Callable[[Step, int], None] = lambda *_: None
    steps: list[Step] = field(default_factory=list)

    def run(self) -> Bisection:
        """Narrow the commits down; Ctrl-C keeps what is known."""
        first, last = 0, len(self.commits) - 1
        unknown: set[int] = set()
        try:
            while (at := _middle(first, last, unknown)) is not None:
                step = self.measure(self.commits[at])
                self.steps.append(step)
                if step.speed is Speed.SLOW:
                    last = at
                elif step.speed is Speed.FAST:
                    first = at + 1
                else:
                    unknown.add(at)
                self.on_step(step, last - first + 1)
        except KeyboardInterrupt:
            return self._outcome(first, last, interrupted=True)
        return self._outcome(first, last)

    def _outcome(self, first: int, last: int, *, interrupted: bool = False) -> Bisection:
        return Bisection(tuple(self.commits[first : last + 1]), tuple(self.steps), interrupted)


def _middle(first: int, last: int, unknown: set[int]) -> int | None:
    """The index nearest to the middle of first..last-1 that is worth a race; None if there is none.

    Whether `last` is slow is known, so it is never raced again.
    """
    open_ = [at for at in range(first, last) if at not in unknown]
    middle = (first + last - 1) / 2
    return min(open_, key=lambda at: abs(at - middle), default=None)
