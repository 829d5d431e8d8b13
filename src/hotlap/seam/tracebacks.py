"""Tracebacks of the user's program show the user's frames and the libraries', and none of ours."""

import os
import sys
from itertools import pairwise
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING

from hotlap.seam.hook import when_imported

if TYPE_CHECKING:
    import threading

OURS = os.path.dirname(os.path.dirname(os.path.realpath(__file__))) + os.sep
"""The folder of hotlap's own code."""


def hide_our_frames() -> None:
    """Have this process print and format its exceptions without hotlap's frames."""
    shown = sys.excepthook

    def excepthook(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        shown(kind, error, strip(error) or trace)

    sys.excepthook = excepthook
    when_imported("traceback", _in_formatted)
    when_imported("threading", _in_threads)


def strip(error: BaseException, seen: frozenset[int] = frozenset()) -> TracebackType | None:
    """Take our frames out of an exception and those it came from; returns its traceback."""
    if id(error) in seen:
        return error.__traceback__
    error.__traceback__ = _without_ours(error.__traceback__)
    below = getattr(error, "exceptions", ()) if isinstance(error, BaseExceptionGroup) else ()
    for other in (error.__cause__, error.__context__, *below):
        if other is not None:
            strip(other, seen | {id(error)})
    return error.__traceback__


def _without_ours(trace: TracebackType | None) -> TracebackType | None:
    entries = []
    while trace is not None:
        entries.append(trace)
        trace = trace.tb_next
    files = [each.tb_frame.f_code.co_filename for each in entries]
    kept = [each for at, each in enumerate(entries) if not _is_ours(files, at)]
    if not kept:  # the error is hotlap's own from end to end
        return entries[0] if entries else None
    for outer, inner in pairwise(kept):
        outer.tb_next = inner
    kept[-1].tb_next = None
    return kept[0]


def _is_ours(files: list[str], at: int) -> bool:
    """Whether a frame is ours; or the import system's around ours, which Python leaves out."""
    while files[at].startswith("<frozen importlib") and at + 1 < len(files):
        at += 1
    return files[at].startswith(OURS)


def _in_formatted(module: ModuleType) -> None:
    """`traceback` formats what is logged and what other processes are sent."""
    formatted = module.TracebackException
    begin = formatted.__init__

    def __init__(  # noqa: N807
        self: object, kind: object, error: object, trace: object, **options: object
    ) -> None:
        if isinstance(error, BaseException) and trace is error.__traceback__:
            trace = strip(error)
        begin(self, kind, error, trace, **options)

    formatted.__init__ = __init__


def _in_threads(module: ModuleType) -> None:
    """`threading` prints the exceptions that end a thread."""
    shown = module.excepthook

    def excepthook(args: "threading.ExceptHookArgs") -> None:
        if args.exc_value is not None:
            strip(args.exc_value)
            args = module.ExceptHookArgs((args.exc_type, args.exc_value,
                                          args.exc_value.__traceback__, args.thread))  # fmt: skip
        shown(args)

    module.excepthook = excepthook  # type: ignore[attr-defined]
