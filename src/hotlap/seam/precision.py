"""Autocast around the root's call; its outputs come back as float32."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.nn import Module

from hotlap.common.nested import mapped
from hotlap.seam.moves import Context
from hotlap.seam.roots import CallRoot, Order, has_parameters


@contextmanager
def autocast(context: Context) -> Iterator[None]:
    """Run models under autocast with the chosen `dtype`."""
    dtype: torch.dtype = getattr(torch, context.values["dtype"])

    def widened(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.float() if tensor.dtype is dtype else tensor

    def maker(root: Module, inner: CallRoot) -> CallRoot | None:
        why = _unfit(root, dtype)
        if why:
            context.inert(why)
            return None
        if not has_parameters(root):
            return None
        device = next(root.parameters()).device.type

        def call(root: Module, *args: object, **kwargs: object) -> object:
            if torch.is_autocast_enabled(device):
                context.inert("autocast is already on")
                return inner(root, *args, **kwargs)
            with torch.autocast(device, dtype=dtype):
                outputs = inner(root, *args, **kwargs)
            context.held(type(root).__name__)
            return mapped(outputs, widened)

        return call

    context.seams.roots.add(Order.AUTOCAST, maker, context.failed)
    yield


def _unfit(root: Module, dtype: torch.dtype) -> str:
    """Why this model cannot be autocast; empty if it can, or has no parameters."""
    if not has_parameters(root):
        return ""
    parameter = next(root.parameters())
    if parameter.dtype is not torch.float32:
        return f"the model's parameters are {str(parameter.dtype).removeprefix('torch.')}"
    if dtype is torch.float16 and parameter.device.type != "cuda":
        return "float16 is only for models on a CUDA device"
    return ""
