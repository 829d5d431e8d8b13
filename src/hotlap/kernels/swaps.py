"""Torch's functions, replaced where the operator was measured to be faster."""

from collections.abc import Callable
from typing import Any

import torch

from hotlap.kernels.cross_entropy import cross_entropy as cross_entropy_
from hotlap.kernels.cross_entropy import serves_logits
from hotlap.kernels.gelu import ROUTE as GELU
from hotlap.kernels.norm import ROUTE as NORM
from hotlap.kernels.route import Route, is_plain
from hotlap.kernels.softmax import ROUTE as SOFTMAX

Function = Callable[..., Any]
FEWEST_LOGITS = 1 << 20
"""Below, their copies are no memory to speak of."""


def _where_faster(route: Route, x: Any, *rest: Any) -> Any:
    """Call the operator; NotImplemented leaves the call to torch."""
    if route.choice(x, *rest) == "torch":
        return NotImplemented
    return route.functions["operator"](x, *rest)


def gelu(_: Function) -> Function:
    """For `torch.nn.functional.gelu`."""

    def substitute(input: object, approximate: str = "none") -> object:  # noqa: A002  # torch's name
        return _where_faster(GELU, input, approximate)

    return substitute


def softmax(_: Function) -> Function:
    """For `torch.nn.functional.softmax` over the last dimension."""

    def substitute(
        input: Any,  # noqa: A002
        dim: int | None = None,
        _stacklevel: int = 3,
        dtype: Any = None,
    ) -> Any:
        last = dtype is None and dim in (-1, input.ndim - 1)
        if not last or torch.is_autocast_enabled(input.device.type):
            return NotImplemented
        return _where_faster(SOFTMAX, input)

    return substitute


def layer_norm(_: Function) -> Function:
    """For `torch.nn.functional.layer_norm` over the last dimension."""

    def substitute(
        input: object,  # noqa: A002
        normalized_shape: object,
        weight: object = None,
        bias: object = None,
        eps: float = 1e-5,
    ) -> object:
        if not _over_last(input, normalized_shape, weight, bias):
            return NotImplemented
        return _where_faster(NORM, input, None, weight, bias, eps, True)

    return substitute


def rms_norm(_: Function) -> Function:
    """For `torch.nn.functional.rms_norm` over the last dimension."""

    def substitute(
        input: Any,  # noqa: A002
        normalized_shape: object,
        weight: Any = None,
        eps: float | None = None,
    ) -> Any:
        if not _over_last(input, normalized_shape, weight):
            return NotImplemented
        given = torch.finfo(input.dtype).eps if eps is None else eps
        return _where_faster(NORM, input, None, weight, None, given, False)

    return substitute


def _over_last(x: Any, shape: Any, *parameters: Any) -> bool:
    """Whether it is what the operator computes: the last dimension alone, all of one dtype."""
    return (
        tuple(shape) == tuple(x.shape[-1:])
        and not torch.is_autocast_enabled(x.device.type)
        and all(p is None or (p.shape == x.shape[-1:] and p.dtype == x.dtype) for p in parameters)
    )


def cross_entropy(_: Function) -> Function:
    """For `torch.nn.functional.cross_entropy` of many logits and class indices."""

    def substitute(  # noqa: PLR0913, PLR0917
        input: Any,  # noqa: A002
        target: Any,
        weight: Any = None,
        size_average: Any = None,
        ignore_index: int = -100,
        reduce: Any = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> Any:
        rare = weight is not None or label_smoothing or (size_average, reduce) != (None, None)
        if rare or not is_plain(input) or input.numel() < FEWEST_LOGITS:
            return NotImplemented
        if torch.compiler.is_compiling() or not serves_logits(input, target):
            return NotImplemented
        return cross_entropy_(input, target, ignore_index=ignore_index, reduction=reduction)

    return substitute
