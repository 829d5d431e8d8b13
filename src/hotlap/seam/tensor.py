"""`Tensor.to` and `Tensor.cuda` without waiting; `torch.tensor` without a copy."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch

from hotlap.seam.liveness import owners, used_later
from hotlap.seam.moves import Context
from hotlap.seam.patch import replaced
from hotlap.seam.where import place


@contextmanager
def async_copy(context: Context) -> Iterator[None]:
    """Pass non_blocking=True where a pinned tensor goes to a CUDA device."""

    def make(original: Any) -> Any:
        @wraps(original)
        def copy(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if not tensor.is_cpu or "non_blocking" in kwargs or not to_cuda(original, args, kwargs):
                return original(tensor, *args, **kwargs)
            if any(isinstance(arg, bool) for arg in args) or not tensor.is_pinned():
                return original(tensor, *args, **kwargs)
            context.held(place())
            return original(tensor, *args, **kwargs, non_blocking=True)

        return copy

    with replaced(torch.Tensor, "to", make), replaced(torch.Tensor, "cuda", make):
        yield


def to_cuda(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
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

    def make(original: Any) -> Any:
        @wraps(original)
        def tensor(data: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
            if args or torch.compiler.is_compiling() or not _plain(kwargs):
                return original(data, *args, **kwargs)  # type: ignore[no-any-return]
            array = _shareable(data, owners(data), sys._getframe(1)) or _stacked(data)
            if array is None:
                return original(data, **kwargs)  # type: ignore[no-any-return]
            context.held(place())
            return _finished(array[0], kwargs)

        return tensor

    with replaced(torch, "tensor", make):
        yield


def _plain(kwargs: dict[str, Any]) -> bool:
    """Whether the tensor stays on the CPU, in memory of the usual kind."""
    if kwargs.get("pin_memory") or kwargs.get("names"):
        return False
    device = kwargs.get("device")
    return torch.device(device or torch.get_default_device()).type == "cpu"


def _shareable(data: Any, count: int, frame: Any) -> tuple[Any] | None:
    """The array itself, if it dies with this call."""
    numpy = sys.modules.get("numpy")
    if numpy is None or type(data) is not numpy.ndarray or not _own_and_usual(data):
        return None
    return None if used_later(data, count, frame) else (data,)


def _own_and_usual(array: Any) -> bool:
    flags = array.flags
    usual = flags.owndata and flags.writeable and flags.c_contiguous and array.dtype.isnative
    return bool(usual and array.size and array.dtype.kind in "biufc")


def _stacked(data: Any) -> tuple[Any] | None:
    """A list of arrays of one shape and dtype, as one new array."""
    numpy = sys.modules.get("numpy")
    if numpy is None or type(data) not in (list, tuple) or not data:
        return None
    first = data[0]
    if type(first) is not numpy.ndarray or first.dtype.kind not in "biufc" or not first.size:
        return None
    looks = {(type(a), getattr(a, "shape", ()), getattr(a, "dtype", None)) for a in data}
    if len(looks) > 1 or not first.dtype.isnative:
        return None
    return (numpy.stack(data),)


def _finished(array: Any, kwargs: dict[str, Any]) -> torch.Tensor:
    made = torch.from_numpy(array)
    dtype = kwargs.get("dtype")
    if dtype is not None:
        made = made.to(dtype)
    return made.requires_grad_() if kwargs.get("requires_grad") else made
