"""Channels-last memory format for the root, its inputs, and back again for its outputs."""

from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakSet

import torch
from torch.nn import Module

from hotlap.common.nested import mapped
from hotlap.seam.moves import Context
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
        yield
    finally:
        for root in converted:
            root.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]


def _last(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dim() == 4 and tensor.is_floating_point():
        return tensor.contiguous(memory_format=torch.channels_last)
    return tensor


def _first(tensor: torch.Tensor) -> torch.Tensor:
    """Callers may .view() an output, which only the default format allows."""
    return tensor.contiguous() if tensor.dim() == 4 else tensor
