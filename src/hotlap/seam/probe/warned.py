"""Torch's own warnings, with the line of the user's that led to them.

Those that Python's filters let through; most of them come once for each place.
"""

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hotlap.seam.patch import replaced
from hotlap.seam.probe.recorder import Recorder
from hotlap.seam.tracebacks import OURS
from hotlap.seam.where import place, users_frame

MOST = 64
LONGEST = 400


@contextmanager
def warned(rec: Recorder) -> Iterator[None]:
    """Remember warnings as they are shown. Python and C code both go through `_showwarnmsg`."""
    if not hasattr(warnings, "_showwarnmsg"):
        yield
        return
    with replaced(warnings, "_showwarnmsg", lambda original: _listening(rec, original)):
        yield


def _name_the_caller(message: Any) -> None:
    """A warning of C code names the Python that called it: the user's line, not a wrapper here."""
    frame = sys._getframe(1)
    ours = os.path.realpath(message.filename).startswith(OURS)
    found = users_frame(frame) if ours else None
    if found is not None:
        message.filename, message.lineno = found.f_code.co_filename, found.f_lineno
        message.line = None


def _listening(rec: Recorder, original: Any) -> Any:
    def show(message: Any) -> None:
        if len(rec.warnings) < MOST and rec.mine():
            text = str(message.message)[:LONGEST]
            rec.warnings.setdefault((text, place()), None)
        _name_the_caller(message)
        original(message)

    return show
