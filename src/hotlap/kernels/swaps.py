"""Torch's functions, replaced where the operator was measured to be faster.

A predicate `serves_...` says which calls the operator takes; the replacement gets no others.
"""

# ruff: noqa: A002 (torch's names)
from collections.abc import Callable, Sequence
from typing import ParamSpec

import torch
from torch import Tensor

from hotlap.kernels.cross_entropy import cross_entropy as cross_entropy_
from hotlap.kernels.cross_entropy import serves_logits
from hotlap.kernels.gelu import ROUTE as GELU
from hotlap.kernels.norm import ROUTE as NORM
from hotlap.kernels.route import Route, is_plain
from hotlap.kernels.softmax import ROUTE as SOFTMAX

Arguments = ParamSpec("Arguments")
FEWEST_LOGITS = 1 << 20
"""Below, their copies are no memory to speak of."""


def _instead(
    substitute: Callable[Arguments, Tensor],
) -> Callable[[object], Callable[Arguments, Tensor]]:
    """Return what makes the replacement of torch's function, which it never calls."""
    return lambda _: substitute


def _faster(route: Route, x: Tensor, *rest: object) -> bool:
    return route.choice(x, *rest) == "operator"


def serves_gelu(input: Tensor, approximate: str = "none") -> bool:
    """Whether the operator was measured to be faster for this size and dtype."""
    return _faster(GELU, input, approximate)


@_instead
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """For `torch.nn.functional.gelu`."""
    return GELU.functions["operator"](input, approximate)


def serves_softmax(
    input: Tensor,
    dim: int | None = None,
    _stacklevel: int = 3,
    dtype: torch.dtype | None = None,
) -> bool:
    """Whether it is one over the last dimension, for which the operator was measured faster."""
    last = dtype is None and dim in (-1, input.ndim - 1)
    return last and not torch.is_autocast_enabled(input.device.type) and _faster(SOFTMAX, input)


@_instead
def softmax(input: Tensor, *_: object, **__: object) -> Tensor:
    """For `torch.nn.functional.softmax` over the last dimension."""
    return SOFTMAX.functions["operator"](input)


def serves_layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> bool:
    """Whether it is one over the last dimension, for which the operator was measured faster."""
    last = _over_last(input, normalized_shape, weight, bias)
    return last and _faster(NORM, input, None, weight, bias, eps, True)


@_instead
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """For `torch.nn.functional.layer_norm` over the last dimension."""
    return NORM.functions["operator"](input, None, weight, bias, eps, True)


def serves_rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> bool:
    """Whether it is one over the last dimension, for which the operator was measured faster."""
    last = _over_last(input, normalized_shape, weight)
    return last and _faster(NORM, input, None, weight, None, _eps(input, eps), False)


@_instead
def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """For `torch.nn.functional.rms_norm` over the last dimension."""
    given = _eps(input, eps)
    return NORM.functions["operator"](input, None, weight, None, given, False)


def _eps(x: Tensor, given: float | None) -> float:
    return torch.finfo(x.dtype).eps if given is None else given


def _over_last(x: Tensor, shape: Sequence[int], *parameters: Tensor | None) -> bool:
    """Whether it is what the operator computes: the last dimension alone, all of one dtype."""
    return (
        tuple(shape) == tuple(x.shape[-1:])
        and not torch.is_autocast_enabled(x.device.type)
        and all(p is None or (p.shape == x.shape[-1:] and p.dtype == x.dtype) for p in parameters)
    )


def serves_cross_entropy(  # noqa: PLR0913, PLR0917
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,  # any is served
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> bool:
    """Whether it is one of many logits and class indices, without what is rare."""
    rare = weight is not None or label_smoothing or (size_average, reduce) != (None, None)
    if rare or not is_plain(input) or input.numel() < FEWEST_LOGITS:
        return False
    return not torch.compiler.is_compiling() and serves_logits(input, target)


@_instead
def cross_entropy(  # noqa: PLR0913, PLR0917
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,  # None where it is served
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """For `torch.nn.functional.cross_entropy` of many logits and class indices."""
    return cross_entropy_(input, target, ignore_index=ignore_index, reduction=reduction)
