"""Fourier transforms of lengths with a large prime factor, and of the next length without one.

`python -m benchmarks.fft_lengths [--seconds 0.3]`: a transform of real signals and back, by turns,
on one thread and on all cores, with threads that sleep while they wait, for lengths on both sides
of `seam.probe.transforms.LARGE_PRIME`. Times are medians; a ratio above 1 is one in which the
longer length, of the factors 2, 3 and 5 alone, is faster.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from benchmarks.row_lookups import by_turns, on_threads, seconds_given, write_seen
from hotlap.core.primes import largest_prime
from hotlap.seam.probe.transforms import LARGE_PRIME

LENGTHS = (
    1009, 1018, 2042, 2048, 4099, 14884, 16001, 16247, 16256, 16381, 16490, 17017, 19456, 20677,
    24001, 24064, 100003,
)  # fmt: skip
SIGNALS = 32


@dataclass(frozen=True)
class Row:
    """What was measured of one length; `seen`: a profile names it."""

    length: int
    prime: int
    padded: int
    threads: int
    seen: bool
    ratio: float
    seconds: float


def measured(length: int, seconds: float) -> Row:
    """The ratio of one length."""
    padded = length
    while largest_prime(padded) > 5:
        padded += 1

    def back_and_forth(n: int) -> Callable[[], object]:
        signals = torch.randn(SIGNALS, n)
        return lambda: torch.fft.irfft(torch.fft.rfft(signals), n=n)

    calls = {"plain": back_and_forth(length), "padded": back_and_forth(padded)}
    took, prime = by_turns(calls, seconds), largest_prime(length)
    return Row(
        length, prime, padded, torch.get_num_threads(), prime >= LARGE_PRIME,
        took["plain"] / took["padded"], took["plain"],
    )  # fmt: skip


def main(seconds: float) -> None:
    """Measure all lengths, and write the record."""
    torch.manual_seed(0)
    found = on_threads(LENGTHS, lambda length: measured(length, seconds))
    write_seen("fft_lengths", found, {"padded": lambda row: row.ratio})


if __name__ == "__main__":
    main(seconds_given(0.3))
