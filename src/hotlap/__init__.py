"""hotlap: put your PyTorch training on the clock."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import Any

__version__ = "0.1.0"
__all__ = ["profiling", "report"]

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


def profiling(*, show: bool = True) -> AbstractContextManager[Any]:
    """Profile the training steps, or calls of a model, that a `with` block of a live process runs.

    Gives a `hotlap.integrations.live.LiveProfile`. The first steps warm up; from about 30 steps on
    the profile is of use. The loader, the model and the optimizer may exist already. Nothing of
    hotlap stays in torch when the block is left. `show`: print the profile then.

    Raises:
        UsageError: this process is profiled already.
    """
    live = import_module("hotlap.integrations.live")
    found: AbstractContextManager[object] = live.profiling(show=show)
    return found


def __getattr__(name: str) -> object:
    from difflib import get_close_matches

    close = get_close_matches(name, __all__, 1)
    hint = f": did you mean hotlap.{close[0]}()?" if close else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")


def load_ipython_extension(shell: object) -> None:
    """`%load_ext hotlap`: the magics `%%hotlap profile`, `%%hotlap race` and `%%hotlap tune`."""
    import_module("hotlap.integrations.ipython").load(shell)
