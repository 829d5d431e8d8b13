"""Fourier transforms of a length that has a large prime factor, which take several times as long.

A transform is computed in steps of the prime factors of its length: of 16,001, a prime, it takes
longer than of 16,384.
"""

from collections.abc import Iterator, Sequence

import torch
from torch._ops import OpOverload

from hotlap.core.primes import largest_prime

TRANSFORMS = {"aten._fft_r2c", "aten._fft_c2c", "aten._fft_c2r"}
LARGE_PRIME = 100
"""Prime factor from which the next length of small ones is faster (benchmarks/fft_lengths.py)."""
LEAST = 1 << 14
"""Elements of a tensor from which that is worth a word."""


def slow_length(func: OpOverload[..., object], args: Sequence[object]) -> int:
    """The length of a transform that has a large prime factor; 0 where none has.

    Only on the CPU: on a device no time of an operator is known.
    """
    if str(func._overloadpacket) not in TRANSFORMS or not isinstance(args[0], torch.Tensor):
        return 0
    if args[0].device.type != "cpu" or args[0].numel() < LEAST:
        return 0
    lengths = (length for length in _lengths(args[0], args) if largest_prime(length) >= LARGE_PRIME)
    return max(lengths, default=0)


def _lengths(tensor: torch.Tensor, args: Sequence[object]) -> Iterator[int]:
    """The lengths of the dimensions that are transformed; of the last one, as it is in real."""
    dims = args[1] if isinstance(args[1], list) else []
    real = args[3] if len(args) > 3 and type(args[3]) is int else 0
    yield from (tensor.shape[dim] for dim in (dims[:-1] if real else dims))
    if real:
        yield real
