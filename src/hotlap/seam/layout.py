"""Channels-last memory format for the root, its inputs, and back again for its outputs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from weakref import WeakSet

import torch
from torch import Tensor
from torch.nn import Module

from hotlap.common.nested import mapped
from hotlap.seam.moves import Context
from hotlap.seam.patch import replaced
from hotlap.seam.roots import CallRoot, Order


@contextmanager
def channels_last(context: Context) -> Iterator[None]:
    """Convert each root that has 4-D weights; on exit its weights are as they were."""
    converted: WeakSet[Module] = WeakSet()

    def maker(root: Module, inner: CallRoot) -> CallRoot | None:
        if not any(parameter.dim() == 4 for parameter in root.parameters()):
            return None
        root.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        converted.add(root)
        context.held(type(root).__name__)

        def call(root: Module, *args: object, **kwargs: object) -> object:
            args = mapped(args, _last)
            kwargs = mapped(kwargs, _last) if kwargs else kwargs
            return mapped(inner(root, *args, **kwargs), _first)

        return call

    context.seams.roots.add(Order.CHANNELS_LAST, maker, context.failed)
    try:
        with replaced(torch.nn.functional, "dropout", _same_mask):
            yield
    finally:
        for root in converted:
            root.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]


def _last(tensor: Tensor) -> Tensor:
    if tensor.dim() == 4 and tensor.is_floating_point():
        return tensor.contiguous(memory_format=torch.channels_last)
    return tensor


def _first(tensor: Tensor) -> Tensor:
    """Callers may .view() an output, which only the default format allows."""
    return tensor.contiguous() if tensor.dim() == 4 else tensor


def _same_mask(original: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Dropout draws in the order of memory: have it draw for each element what it would plainly."""

    @wraps(original)
    def dropout(  # the parameters are torch's
        input: Tensor,  # noqa: A002
        p: float = 0.5,
        training: bool = True,
        inplace: bool = False,
    ) -> Tensor:
        if not (training and p > 0.0 and _is_last(input)):
            return original(input, p, training, inplace)
        ones = torch.ones(input.shape, dtype=input.dtype, device=input.device)
        mask = original(ones, p).contiguous(memory_format=torch.channels_last)
        return input.mul_(mask) if inplace else input * mask

    return dropout


def _is_last(tensor: Tensor) -> bool:
    return (
        tensor.dim() == 4
        and tensor.is_contiguous(memory_format=torch.channels_last)
        and not tensor.is_contiguous()
    )
