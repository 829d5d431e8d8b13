"""A cell of a live session is measured behind the cells that it stands on.

The script that is made of them calls `CELL.waits` at its head and `CELL.begins` in front of the
cell. Until then techniques act and nothing is timed: what earlier cells train is not the cell's.
"""

from collections.abc import Callable


class Cell:
    """The only cell of a script that is measured, if there is one."""

    def __init__(self) -> None:
        self.awaited = False
        self._calls: list[Callable[[], None]] = []

    def waits(self) -> None:
        """It comes later."""
        self.awaited = True

    def begins(self) -> None:
        """It begins now."""
        self.awaited = False
        while self._calls:
            self._calls.pop(0)()

    def when_it_begins(self, call: Callable[[], None]) -> None:
        """Have this called in front of it."""
        self._calls.append(call)


CELL = Cell()
