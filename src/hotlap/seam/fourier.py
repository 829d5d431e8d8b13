"""Convolutions with long kernels, by the fast Fourier transform.

A sum over the K taps of a kernel for each of N outputs takes K N multiplications; the product of
two spectra, with the transforms there and back, takes N log N. Torch's kernels add up taps, and the
gradients of one kernel for each channel even one by one on the CPU.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeGuard

import torch
from torch.nn import functional

from hotlap.common.plain import PLAIN

WORTH = 20.0
"""Times fewer operations from which spectra are multiplied: complex numbers take more memory
traffic than a matrix product (benchmarks/long_kernels.py)."""
WORTH_BY_CHANNEL = 2.0
"""The same where each channel has its kernel and gradients are asked for."""
DIMS = (1, 2)
TRANSFORM = 2.5
"""Operations of a real transform of N numbers, over N log2 N (Cooley and Tukey)."""
PRODUCT = 4.0
"""Operations of the product of two spectra of N real numbers, over N."""

Sizes = tuple[int, ...]


def serves_convolution(
    input: object,  # noqa: A002  # torch's name
    weight: object,
    bias: object = None,
    stride: object = 1,
    padding: object = 0,
    dilation: object = 1,
    groups: int = 1,
) -> bool:
    """Whether a convolution takes far fewer operations by way of the spectra."""
    if not (_plain(input) and _plain(weight)) or not (bias is None or _plain(bias)):
        return False
    dims = weight.dim() - 2
    once = (1,) * dims
    if _sizes(stride, dims) != once or _sizes(dilation, dims) != once:
        return False
    if dims not in DIMS or input.dim() != dims + 2 or input.dtype != weight.dtype:
        return False
    before, after = _paddings(padding, tuple(weight.shape[2:]))
    lengths = tuple(map(sum, zip(input.shape[2:], before, after, strict=True)))
    differentiated = torch.is_grad_enabled() and (input.requires_grad or weight.requires_grad)
    return pays(
        (*input.shape[:2], *lengths), tuple(weight.shape), groups, differentiated=differentiated
    )


def _plain(tensor: object) -> TypeGuard[torch.Tensor]:
    """Whether it is a tensor that torch can transform as it is."""
    return (
        type(tensor) in PLAIN
        and isinstance(tensor, torch.Tensor)
        and tensor.dtype in (torch.float32, torch.float64)
        and not torch.is_autocast_enabled(tensor.device.type)
    )


def _sizes(value: object, dims: int) -> Sizes:
    """One number for each dimension, of a number or a sequence."""
    numbers = tuple(value) if isinstance(value, Sequence) else (value,)
    return numbers * dims if len(numbers) == 1 else numbers


def _paddings(padding: object, kernel: Sizes) -> tuple[Sizes, Sizes]:
    """The zeros in front of each dimension, and behind."""
    if padding == "same":
        return tuple((size - 1) // 2 for size in kernel), tuple(size // 2 for size in kernel)
    sizes = _sizes(0 if padding == "valid" else padding, len(kernel))
    return sizes, sizes


@lru_cache(maxsize=1024)
def pays(padded: Sizes, weight: Sizes, groups: int, *, differentiated: bool) -> bool:
    """Whether spectra are worth while for an input, its zeros included, and a weight.

    Args:
        padded: the input's shape, (N, C, length ...).
        weight: the weight's shape, (output channels, C / groups, taps ...).
        groups: of channels.
        differentiated: whether gradients are asked for.
    """
    if any(length < size for length, size in zip(padded[2:], weight[2:], strict=True)):
        return False
    by_channel = weight[1] == 1 and weight[0] == groups and differentiated
    worth = WORTH_BY_CHANNEL if by_channel else WORTH
    return operations(padded, weight) >= worth * spectral_operations(padded, weight)


def operations(padded: Sizes, weight: Sizes) -> float:
    """Additions and multiplications that sum up the taps, for shapes as `pays` takes them."""
    (batch, _, *lengths), (made, each, *taps) = padded, weight
    outputs = (length - size + 1 for length, size in zip(lengths, taps, strict=True))
    return 2.0 * batch * made * each * math.prod(taps) * math.prod(outputs)


def spectral_operations(padded: Sizes, weight: Sizes) -> float:
    """The same by way of the spectra."""
    (batch, channels, *lengths), (made, each, *_) = padded, weight
    size = math.prod(map(fast_length, lengths))
    transforms = batch * channels + made * each + batch * made
    return size * (TRANSFORM * math.log2(size) * transforms + PRODUCT * batch * made * each)


@lru_cache(maxsize=1024)
def fast_length(least: int) -> int:
    """The smallest product of twos, threes and fives that is not below `least`."""
    found = 1 << max(0, least - 1).bit_length()
    fives = 1
    while fives < found:
        threes = fives
        while threes < found:
            whole = threes << max(0, -(-least // threes) - 1).bit_length()
            found = min(found, whole)
            threes *= 3
        fives *= 5
    return found


def convolution(_: Callable[..., object]) -> Callable[..., object]:
    """Convolve by way of the spectra, where it serves the call."""

    def by_spectra(
        input: torch.Tensor,  # noqa: A002  # torch's name
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
        stride: object = 1,
        padding: object = 0,
        dilation: object = 1,
        groups: int = 1,
    ) -> torch.Tensor:
        taps = tuple(weight.shape[2:])
        before, after = _paddings(padding, taps)
        padded = _with_zeros(input, before, after)
        lengths = padded.shape[2:]
        outputs = tuple(one - size + 1 for one, size in zip(lengths, taps, strict=True))
        made = _correlated(padded, weight, groups)
        for at, size in enumerate(outputs, 2):
            made = made.narrow(at, 0, size)
        return made if bias is None else made + bias.view(-1, *(1,) * len(taps))

    return by_spectra


def _with_zeros(tensor: torch.Tensor, before: Sizes, after: Sizes) -> torch.Tensor:
    sides = [size for pair in zip(reversed(before), reversed(after), strict=True) for size in pair]
    return functional.pad(tensor, sides) if any(sides) else tensor


def _correlated(padded: torch.Tensor, weight: torch.Tensor, groups: int) -> torch.Tensor:
    """The circular cross-correlation, whose first outputs are those of the convolution layer."""
    sizes = [*map(fast_length, padded.shape[2:])]
    dims = [*range(2, padded.dim())]
    of_input = torch.fft.rfftn(padded, sizes, dims)
    of_weight = torch.fft.rfftn(weight, sizes, dims).conj()
    made: torch.Tensor = torch.fft.irfftn(_product(of_input, of_weight, groups), sizes, dims)
    return made


def _product(of_input: torch.Tensor, of_weight: torch.Tensor, groups: int) -> torch.Tensor:
    """The spectra multiplied, and added up over the channels of a group."""
    if of_weight.shape[:2] == (groups, 1):
        return of_input * of_weight.squeeze(1)
    made, frequencies = len(of_weight), of_input.shape[2:]
    by_group = of_input.reshape(len(of_input), groups, -1, *frequencies)
    weights = of_weight.reshape(groups, made // groups, -1, *frequencies)
    product: torch.Tensor = torch.einsum("bgi...,goi...->bgo...", by_group, weights)
    return product.reshape(-1, made, *frequencies)


def long_kernels(args: Sequence[object]) -> bool:
    """Whether `aten.convolution`, called with these, is one that spectra would serve."""
    tensor, weight, bias, stride, padding, dilation, transposed, _, groups = args
    if transposed or not isinstance(groups, int):
        return False
    return serves_convolution(tensor, weight, bias, stride, padding, dilation, groups)
