"""Looks for `torch.tensor(array)`, which copies; steps aside once it has shown itself."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from types import FrameType
from typing import Any

import torch
from torch.utils._device import _device_constructors

from hotlap.seam.probe.compiling import untraced
from hotlap.seam.probe.recorder import Recorder

LOOKS = 4096


@contextmanager
def arrays(rec: Recorder) -> Iterator[None]:
    """Note the first tensor made of a NumPy array, and where."""
    _device_constructors()  # cached: torch.device() contexts must know the original by name
    with untraced(torch, "tensor", lambda original: _looking(rec, original), comes_back=False):
        yield


def _looking(rec: Recorder, original: Any) -> Any:
    calls = [0]

    def step_aside() -> None:
        if torch.tensor is tensor:
            torch.tensor = original

    @wraps(original)
    def tensor(data: Any, *args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        if isinstance(data, torch.Tensor):
            step_aside()
            return _warned_as(sys._getframe(1), original, data, *args, **kwargs)
        if not _has_array(data):
            made = original(data, *args, **kwargs)
        else:
            made = _warned_as(sys._getframe(1), original, data, *args, **kwargs)
            rec.facts.note("tensor_from_numpy")
            rec.facts.point("tensor")
            if made.dtype == torch.float64:
                rec.facts.made_double("float64_array")
            step_aside()
        if calls[0] >= LOOKS:
            step_aside()
        return made

    return tensor


def _has_array(data: Any) -> bool:
    """Whether it is an array with dimensions, or a list of such."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is None:
        return False
    first = data[0] if isinstance(data, (list, tuple)) and data else data
    return isinstance(first, numpy.ndarray) and bool(first.ndim)


def _warned_as(frame: FrameType, call: Any, *args: Any, **kwargs: Any) -> Any:
    """Call; its warnings (for a tensor, or a list of arrays) name the caller's line."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call(*args, **kwargs)
    names = frame.f_globals
    for one in caught:
        warnings.warn_explicit(
            one.message,
            one.category,
            frame.f_code.co_filename,
            frame.f_lineno,
            names.get("__name__"),
            names.setdefault("__warningregistry__", {}),
        )
    return result
