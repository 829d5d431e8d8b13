"""Channels-last memory format for the root, its inputs, and back again for its outputs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from weakref import WeakSet

import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.parallel import DistributedDataParallel

from hotlap.common.nested import mapped
from hotlap.seam.moves import Context
from hotlap.seam.patch import replaced
from hotlap.seam.roots import CallRoot, Order


@contextmanager
def channels_last(context: Context) -> Iterator[None]:
    """Convert each root that has 4-D weights; on exit its weights are as they were."""
    converted: WeakSet[Module] = WeakSet()

    def convert(root: Module) -> None:
        root.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        converted.add(root)

    def maker(root: Module, inner: CallRoot) -> CallRoot | None:
        if not _has_images(root):
            return None
        if _wrapped_before(root):
            context.inert("DistributedDataParallel wrapped the model in its usual layout")
            return None
        convert(root)
        context.held(type(root).__name__)

        def call(root: Module, *args: object, **kwargs: object) -> object:
            args = mapped(args, _last)
            kwargs = mapped(kwargs, _last) if kwargs else kwargs
            return mapped(inner(root, *args, **kwargs), _first)

        return call

    context.seams.roots.add(Order.CHANNELS_LAST, maker, context.failed)
    try:
        with (
            replaced(torch.nn.functional, "dropout", _same_mask),
            replaced(DistributedDataParallel, "__init__", lambda f: _converting(f, convert)),
        ):
            yield
    finally:
        for root in converted:
            root.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]


def _converting(
    original: Callable[..., object], convert: Callable[[Module], None]
) -> Callable[..., None]:
    """DDP's `__init__`, which converts what it is about to wrap."""

    @wraps(original)
    def init(self: Module, module: Module, *args: object, **kwargs: object) -> None:
        if _has_images(module):
            convert(module)
        original(self, module, *args, **kwargs)

    return init


def _has_images(module: Module) -> bool:
    """Whether it has 4-D weights."""
    return any(parameter.dim() == 4 for parameter in module.parameters())


def _wrapped_before(root: Module) -> bool:
    """Whether it holds DDP models whose weights have another layout.

    DDP's buckets keep the layout of the time of wrapping: after a conversion the gradients of
    torch 2.13 are wrong, but for a warning.
    """
    return any(
        parameter.dim() == 4 and not parameter.is_contiguous(memory_format=torch.channels_last)
        for module in root.modules()
        if isinstance(module, DistributedDataParallel)
        for parameter in module.parameters()
    )


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
