"""hotlap: put your PyTorch training on the clock."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__version__ = "0.1.0"
__all__ = ["report"]

_listeners: list[Callable[[str, float], None]] = []


def report(name: str, value: float) -> None:
    """Report the value of a metric, such as a validation accuracy, from a training script.

    `hotlap race --until 'name>=value'` reads it. Without hotlap watching nothing happens.
    """
    for listener in _listeners:
        listener(str(name), float(value))


@contextmanager
def listening(listener: Callable[[str, float], None]) -> Iterator[None]:
    """Hand what the program reports to a listener."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
