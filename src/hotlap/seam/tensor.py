"""`Tensor.to` and `Tensor.cuda` without waiting; `torch.tensor` without a copy."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FrameType
from typing import Any

import torch
from torch.utils._device import _device_constructors

from hotlap.seam.liveness import owners, used_later
from hotlap.seam.moves import Context
from hotlap.seam.patch import replaced


@contextmanager
def async_copy(context: Context) -> Iterator[None]:
    """Pass non_blocking=True where a pinned tensor goes to a CUDA device."""

    def make(original: Callable[..., object]) -> object:
        @wraps(original)
        def copy(tensor: torch.Tensor, *args: object, **kwargs: object) -> object:
            if not tensor.is_cpu or "non_blocking" in kwargs:
                return original(tensor, *args, **kwargs)
            with context.isolated():
                if _may_overlap(original, tensor, args, kwargs):
                    context.held_in(sys._getframe(1))
                    kwargs = {**kwargs, "non_blocking": True}
            return original(tensor, *args, **kwargs)

        return copy

    with replaced(torch.Tensor, "to", make), replaced(torch.Tensor, "cuda", make):
        yield


def _may_overlap(
    original: Callable[..., object],
    tensor: torch.Tensor,
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> bool:
    """Whether this copy goes from pinned memory to CUDA, without a flag given by position."""
    given = any(isinstance(arg, bool) for arg in args)
    return to_cuda(original, args, kwargs) and not given and tensor.is_pinned()


def to_cuda(
    original: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> bool:
    """Whether a call of `Tensor.to` or `Tensor.cuda` with these arguments goes to CUDA."""
    if original.__name__ == "cuda":
        return True
    target = kwargs.get("device", kwargs.get("other", args[0] if args else None))
    if isinstance(target, torch.Tensor):
        return target.is_cuda
    if isinstance(target, torch.device):
        return target.type == "cuda"
    if isinstance(target, str):
        return target.startswith("cuda")
    return isinstance(target, int) and not isinstance(target, bool)


@contextmanager
def no_copy_from_numpy(context: Context) -> Iterator[None]:
    """Share an array's memory where nobody else can see it; stack lists of arrays as blocks."""

    def make(original: Callable[..., object]) -> object:
        @wraps(original)
        def tensor(data: object, *args: object, **kwargs: object) -> object:
            if torch.compiler.is_compiling():
                return original(data, *args, **kwargs)
            count = owners(data)  # first of all: every use below would add to it
            if args or not _plain(kwargs):
                return original(data, *args, **kwargs)
            dtype = kwargs.get("dtype")
            frame = sys._getframe(1)
            made = None
            with context.isolated():
                made = _shared(data, dtype, count, frame) or _stacked(data, dtype)
            if made is None:
                return original(data, **kwargs)
            context.held_in(frame)
            return made[0].requires_grad_(bool(kwargs.get("requires_grad")))

        return tensor

    _device_constructors()  # cached: torch.device() contexts must know the original by name
    with replaced(torch, "tensor", make):
        yield


def _plain(kwargs: dict[str, object]) -> bool:
    """Whether the tensor stays on the CPU, in memory of the usual kind."""
    if kwargs.get("pin_memory") or kwargs.get("names"):
        return False
    device = kwargs.get("device")
    if device is None:
        return torch.empty(0).is_cpu  # where torch.set_default_device points
    return str(device) == "cpu"


def sharable(data: object, count: int, frame: FrameType) -> bool:
    """Whether it is an array that owns its memory and dies with the call at `frame`.

    `count` is what `owners` said in the callee.
    """
    numpy = sys.modules.get("numpy")
    own = numpy is not None and type(data) is numpy.ndarray and _own_and_usual(data)
    return own and not used_later(count, frame)


def stackable(data: object) -> bool:
    """Whether it is a list of arrays of one shape and dtype."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(data, list | tuple) or not data:
        return False
    if not all(type(a) is numpy.ndarray for a in data):
        return False
    first = data[0]
    alike = len({(a.shape, a.dtype) for a in data}) == 1
    return bool(alike and first.ndim and first.size and _usual(first.dtype))


def _shared(
    data: object, dtype: object, count: int, frame: FrameType
) -> tuple[torch.Tensor] | None:
    """A tensor in the array's memory, if the array dies with this call."""
    if not sharable(data, count, frame):
        return None
    made = torch.from_numpy(data)
    return (made,) if dtype in (None, made.dtype) else None  # a conversion copies anyway


def _own_and_usual(array: Any) -> bool:
    flags = array.flags
    usual = flags.owndata and flags.writeable and flags.forc and _usual(array.dtype)
    return bool(usual and array.size)


def _stacked(data: Any, dtype: object) -> tuple[torch.Tensor] | None:
    """A list of arrays of one shape and dtype, copied block by block."""
    if not stackable(data):
        return None
    made = torch.from_numpy(sys.modules["numpy"].stack(data))
    if dtype in (None, made.dtype):
        return (made,)
    if dtype not in (torch.float32, torch.float64) or data[0].dtype.kind == "c":
        return None  # torch.tensor checks for overflow, number by number
    return (made.double().to(dtype),)  # by way of float64, as torch.tensor goes


def _usual(dtype: Any) -> bool:
    return dtype.isnative and dtype.kind in "biufc"
