"""Where each module of the model was made: the user's line that called its constructor."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Any

import torch

from hotlap.seam.probe.compiling import untraced
from hotlap.seam.probe.recorder import Recorder
from hotlap.seam.where import place


@contextmanager
def making(rec: Recorder) -> Iterator[None]:
    """Remember the places while modules are made; nothing is paid in a step."""
    with untraced(torch.nn.Module, "__init__", lambda original: _noting(rec, original)):
        yield


def _noting(rec: Recorder, original: Any) -> Any:
    @wraps(original)
    def __init__(module: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        original(module, *args, **kwargs)
        with suppress(Exception):  # a module of the user's without a hash, or without one yet
            rec.made[module] = place()

    return __init__
