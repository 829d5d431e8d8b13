"""Signals put off for a while."""

import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType


def signal_name(number: int) -> str:
    """`SIGTERM` for 15; one that has no name of its own, as real-time signals, by its number."""
    known = {int(each): each.name for each in signal.Signals}
    return known.get(number, f"signal {number}")


@contextmanager
def signals_held(numbers: Iterable[int]) -> Iterator[None]:
    """Put off what Python handlers of these signals do until the body is over.

    A handler may raise, at any place of the body: the default one of SIGINT does. Signals that are
    ignored or have their default action keep it, for children as well. Of each signal the last one
    counts. In a thread other than the main one no handler is run, and nothing is put off.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    found = {number: signal.getsignal(number) for number in numbers}
    handlers = {number: handler for number, handler in found.items() if callable(handler)}
    held: dict[int, FrameType | None] = {}
    for number in handlers:
        signal.signal(number, held.__setitem__)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number, frame in held.items():
            handlers[number](number, frame)


@contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """Have SIGTERM, by which schedulers and CI end what takes too long, raise KeyboardInterrupt.

    Not where it is ignored or has a handler, nor in a thread other than the main one.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def alarm_held() -> Iterator[None]:
    """Stop this process's alarm clock (`signal.alarm`, ITIMER_REAL) until the body is over."""
    left, interval = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        yield
    finally:
        if left:
            signal.setitimer(signal.ITIMER_REAL, left, interval)
