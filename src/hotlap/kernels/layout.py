"""Tensors as the kernels take them: dense, and two of them in the same order."""

import torch
from torch import Tensor


def dense(x: Tensor) -> Tensor:
    """Return the tensor where it fills its memory without gaps, in any order; else a copy."""
    if x.is_contiguous():
        return x
    model = torch.empty_like(x)
    return x if x.stride() == model.stride() else model.copy_(x)


def alike(tensor: Tensor, model: Tensor) -> Tensor:
    """Return the tensor with the strides of another of its shape."""
    return tensor if tensor.stride() == model.stride() else torch.empty_like(model).copy_(tensor)


def contiguous(*tensors: Tensor | None) -> list[Tensor | None]:
    """Row after row, without gaps."""
    return [None if tensor is None else tensor.contiguous() for tensor in tensors]
