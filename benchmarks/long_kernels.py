"""Convolutions with long kernels, by torch's kernels and by way of spectra.

`python -m benchmarks.long_kernels [--seconds 1]`: for depthwise, dense and single-channel
convolutions, with `saved`, the times fewer operations that spectra take, on both sides of the
limits in `seam.fourier`, both run by turns, without gradients and with them, on one thread and on
all cores, with threads that sleep while they wait. Times are medians; a ratio above 1 is one in
which spectra are faster.
"""

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch
from torch.nn import functional

from benchmarks import record
from benchmarks.row_lookups import by_turns, on_threads, seconds_given
from hotlap.seam import fourier

SHAPES = (
    (16, 64, (1024,), 64, (15,), 64), (16, 64, (1024,), 64, (31,), 64),
    (16, 64, (1024,), 64, (63,), 64), (16, 64, (1024,), 64, (255,), 64),
    (4, 32, (16000,), 32, (1024,), 32), (8, 64, (38, 38), 64, (7, 7), 64),
    (8, 64, (40, 40), 64, (13, 13), 64), (8, 64, (62, 62), 64, (31, 31), 64),
    (32, 1, (16000,), 1, (64,), 1), (32, 1, (16000,), 1, (512,), 1),
    (32, 1, (8000,), 40, (101,), 1), (32, 1, (8000,), 40, (251,), 1),
    (16, 64, (1024,), 64, (15,), 1), (16, 64, (1024,), 64, (31,), 1),
    (16, 64, (1024,), 64, (63,), 1), (16, 64, (1024,), 64, (255,), 1),
    (8, 16, (40, 40), 16, (13, 13), 1), (8, 16, (62, 62), 16, (31, 31), 1),
)  # fmt: skip
"""Batch, channels, lengths, output channels, taps, groups."""


@dataclass(frozen=True)
class Row:
    """What was measured of one convolution; `saved`: the times fewer operations of the spectra."""

    input: fourier.Sizes
    weight: fourier.Sizes
    groups: int
    threads: int
    saved: float
    served: bool
    served_with_gradients: bool
    forward: float
    whole: float
    seconds: float


def measured(
    batch: int, channels: int, lengths: fourier.Sizes, made: int, taps: fourier.Sizes, groups: int,
    seconds: float,
) -> Row:  # fmt: skip
    """The ratios of one convolution."""
    x = torch.randn(batch, channels, *lengths, requires_grad=True)
    weight = torch.randn(made, channels // groups, *taps, requires_grad=True)
    plain = functional.conv1d if len(taps) == 1 else functional.conv2d
    spectra = fourier.convolution(plain)

    def forward(convolve: Callable[..., torch.Tensor]) -> Callable[[], object]:
        return lambda: convolve(x.detach(), weight.detach(), groups=groups)

    def both(convolve: Callable[..., torch.Tensor]) -> Callable[[], object]:
        def run() -> object:
            result = convolve(x, weight, groups=groups)
            return torch.autograd.grad(result, (x, weight), torch.ones_like(result))

        return run

    once = by_turns({"plain": forward(plain), "spectra": forward(spectra)}, seconds)
    twice = by_turns({"plain": both(plain), "spectra": both(spectra)}, seconds)
    padded, shape = tuple(x.shape), tuple(weight.shape)
    return Row(
        padded, shape, groups, torch.get_num_threads(),
        fourier.operations(padded, shape) / fourier.spectral_operations(padded, shape),
        fourier.pays(padded, shape, groups, differentiated=False),
        fourier.pays(padded, shape, groups, differentiated=True),
        once["plain"] / once["spectra"], twice["plain"] / twice["spectra"], twice["plain"],
    )  # fmt: skip


def main(seconds: float) -> None:
    """Measure all shapes, and write the record."""
    torch.manual_seed(0)
    found = on_threads(SHAPES, lambda shape: measured(*shape, seconds))
    once = [row.forward for row in found if row.served]
    both = [row.whole for row in found if row.served_with_gradients]
    summary = {
        "forward": record.spread(once),
        "forward and backward": record.spread(both),
        "load average": os.getloadavg()[0],
    }
    rows = [asdict(row) for row in found]
    record.write("long_kernels", "python -m benchmarks.long_kernels", rows, summary)


if __name__ == "__main__":
    main(seconds_given(1.0))
