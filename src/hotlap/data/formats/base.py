"""What a format offers to a comparison."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

Read = Callable[[int], object]
"""Read the sample of a number; what it returns holds the payload's bytes."""


@dataclass(frozen=True)
class Format:
    """One format: `write(payloads, path)`, then `open(path)` gives a function of the number.

    `needs` are the modules it is written and read with; `rows`: only for payloads of one length;
    `in_order`: it can only be read from its beginning, so that the number is not looked at.
    """

    name: str
    needs: tuple[str, ...]
    write: Callable[[Sequence[bytes], Path], None]
    open: Callable[[Path], Read]
    rows: bool = False
    in_order: bool = False

    @property
    def title(self) -> str:
        """Its name, and how it is read."""
        return f"{self.name}, in order" if self.in_order else self.name


def in_order(begin: Callable[[], Iterable[object]]) -> Read:
    """Read sample after sample, and from the beginning again after the last."""
    state: dict[str, Iterator[object]] = {"samples": iter(begin())}

    def read(_: int) -> object:
        for sample in state["samples"]:
            return sample
        state["samples"] = iter(begin())
        return next(state["samples"])

    return read
