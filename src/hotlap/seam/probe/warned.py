"""Torch's own warnings, with the line of the user's that led to them.

Those that Python's filters let through; most of them come once for each place.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hotlap.seam.patch import replaced
from hotlap.seam.probe.recorder import Recorder
from hotlap.seam.where import place

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


def _listening(rec: Recorder, original: Any) -> Any:
    def show(message: Any) -> None:
        if len(rec.warnings) < MOST and rec.mine():
            text = str(message.message)[:LONGEST]
            rec.warnings.setdefault((text, place()), None)
        original(message)

    return show
