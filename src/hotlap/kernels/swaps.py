"""Torch's functions, replaced where the operator was measured to be faster.

A predicate `serves_...` says which calls the operator takes; the replacement gets no others.
"""

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


def _faster(route: Route, x: Any, *rest: Any) -> bool:
    return route.choice(x, *rest) == "operator"


def serves_gelu(input: Any, approximate: str = "none") -> bool:  # noqa: A002  # torch's name
    """Whether the operator was measured to be faster for this size and dtype."""
    return _faster(GELU, input, approximate)


def gelu(_: Function) -> Function:
    """For `torch.nn.functional.gelu`."""

    def substitute(input: Any, approximate: str = "none") -> object:  # noqa: A002
        return GELU.functions["operator"](input, approximate)

    return substitute


def serves_softmax(
    input: Any,  # noqa: A002
    dim: int | None = None,
    _stacklevel: int = 3,
    dtype: Any = None,
) -> bool:
    """Whether it is one over the last dimension, for which the operator was measured faster."""
    last = dtype is None and dim in (-1, input.ndim - 1)
    return last and not torch.is_autocast_enabled(input.device.type) and _faster(SOFTMAX, input)


def softmax(_: Function) -> Function:
    """For `torch.nn.functional.softmax` over the last dimension."""

    def substitute(input: Any, *_: object, **__: object) -> object:  # noqa: A002
        return SOFTMAX.functions["operator"](input)

    return substitute


def serves_layer_norm(
    input: Any,  # noqa: A002
    normalized_shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
) -> bool:
    """Whether it is one over the last dimension, for which the operator was measured faster."""
    last = _over_last(input, normalized_shape, weight, bias)
    return last and _faster(NORM, input, None, weight, bias, eps, True)


def layer_norm(_: Function) -> Function:
    """For `torch.nn.functional.layer_norm` over the last dimension."""

    def substitute(
        input: Any,  # noqa: A002
        normalized_shape: object,
        weight: Any = None,
        bias: Any = None,
        eps: float = 1e-5,
    ) -> object:
        return NORM.functions["operator"](input, None, weight, bias, eps, True)

    return substitute


def serves_rms_norm(
    input: Any,  # noqa: A002
    normalized_shape: Any,
    weight: Any = None,
    eps: float | None = None,
) -> bool:
    """Whether it is one over the last dimension, for which the operator was measured faster."""
    last = _over_last(input, normalized_shape, weight)
    return last and _faster(NORM, input, None, weight, None, _eps(input, eps), False)


def rms_norm(_: Function) -> Function:
    """For `torch.nn.functional.rms_norm` over the last dimension."""

    def substitute(
        input: Any,  # noqa: A002
        normalized_shape: object,
        weight: Any = None,
        eps: float | None = None,
    ) -> object:
        given = _eps(input, eps)
        return NORM.functions["operator"](input, None, weight, None, given, False)

    return substitute


def _eps(x: Any, given: float | None) -> float:
    return torch.finfo(x.dtype).eps if given is None else given


def _over_last(x: Any, shape: Any, *parameters: Any) -> bool:
    """Whether it is what the operator computes: the last dimension alone, all of one dtype."""
    return (
        tuple(shape) == tuple(x.shape[-1:])
        and not torch.is_autocast_enabled(x.device.type)
        and all(p is None or (p.shape == x.shape[-1:] and p.dtype == x.dtype) for p in parameters)
    )


def serves_cross_entropy(  # noqa: PLR0913, PLR0917
    input: Any,  # noqa: A002
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,  # any is served
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> bool:
    """Whether it is one of many logits and class indices, without what is rare."""
    rare = weight is not None or label_smoothing or (size_average, reduce) != (None, None)
    if rare or not is_plain(input) or input.numel() < FEWEST_LOGITS:
        return False
    return not torch.compiler.is_compiling() and serves_logits(input, target)


def cross_entropy(_: Function) -> Function:
    """For `torch.nn.functional.cross_entropy` of many logits and class indices."""

    def substitute(  # noqa: PLR0913, PLR0917
        input: Any,  # noqa: A002
        target: Any,
        weight: Any = None,  # None where it is served
        size_average: Any = None,
        ignore_index: int = -100,
        reduce: Any = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> Any:
        return cross_entropy_(input, target, ignore_index=ignore_index, reduction=reduction)

    return substitute
