"""The user's lines at which modules are made, and at which torch warns."""

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps

import torch

from hotlap.seam.patch import replaced
from hotlap.seam.probe.compiling import untraced
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


def _name_the_caller(message: warnings.WarningMessage) -> None:
    """A warning of C code names the Python that called it: the user's line, not a wrapper here."""
    frame = sys._getframe(1)
    ours = os.path.realpath(message.filename).startswith(OURS)
    found = users_frame(frame) if ours else None
    if found is not None:
        message.filename, message.lineno = found.f_code.co_filename, found.f_lineno
        message.line = None


def _listening(rec: Recorder, original: Callable[..., object]) -> object:
    def show(message: warnings.WarningMessage) -> None:
        if len(rec.warnings) < MOST and rec.mine():
            text = str(message.message)[:LONGEST]
            rec.warnings.setdefault((text, place()), None)
        _name_the_caller(message)
        original(message)

    return show


@contextmanager
def making(rec: Recorder) -> Iterator[None]:
    """Remember the places while modules are made; nothing is paid in a step."""
    with untraced(torch.nn.Module, "__init__", lambda original: _noting_site(rec, original)):
        yield


def _noting_site(rec: Recorder, original: Callable[..., object]) -> object:
    @wraps(original)
    def __init__(module: torch.nn.Module, *args: object, **kwargs: object) -> None:  # noqa: N807
        original(module, *args, **kwargs)
        with suppress(Exception):  # a module of the user's without a hash, or without one yet
            rec.made[module] = place()

    return __init__
