"""The workloads of `hotlap bench`, which run in a process of their own.

Each function makes the two sides of a row: two functions of the pair's number. What a side returns
is a measurement of its own, `(value, reached)`; where it returns None it is timed.
"""

from collections.abc import Callable
from dataclasses import dataclass

Outcome = tuple[float, bool] | None


@dataclass(frozen=True)
class Sides:
    """A is the plain way, B the article's."""

    a: Callable[[int], Outcome]
    b: Callable[[int], Outcome]
