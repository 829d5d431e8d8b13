"""Torch's functions, replaced where another implementation was measured to be faster."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from hotlap.kernels import gelu as gelu_
from hotlap.kernels import softmax as softmax_
from hotlap.kernels.gelu import FORWARD as GELU
from hotlap.kernels.softmax import FORWARD as SOFTMAX

SMALLEST = 1 << 14
"""Elements below which the call through torch.library costs more than a kernel can save."""
Function = Callable[..., Any]


def _worth(x: Any) -> bool:
    """A plain, large tensor outside of torch.compile, which fuses better itself."""
    plain = type(x) in (Tensor, torch.nn.Parameter)
    return plain and not torch.compiler.is_compiling() and x.numel() >= SMALLEST


def gelu(_: Function) -> Function:
    """For `torch.nn.functional.gelu`."""

    def substitute(input: Any, approximate: str = "none") -> Any:  # noqa: A002  # torch's name
        if not _worth(input) or GELU.choice(input.detach(), approximate) == "torch":
            return NotImplemented
        return gelu_(input, approximate)

    return substitute


def softmax(_: Function) -> Function:
    """For `torch.nn.functional.softmax` over the last dimension."""

    def substitute(
        input: Any,  # noqa: A002
        dim: int | None = None,
        _stacklevel: int = 3,
        dtype: Any = None,
    ) -> Any:
        last = _worth(input) and dtype is None and dim in (-1, input.ndim - 1)
        if not last or torch.is_autocast_enabled(input.device.type):
            return NotImplemented
        return NotImplemented if SOFTMAX.choice(input.detach()) == "torch" else softmax_(input)

    return substitute
