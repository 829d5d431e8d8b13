"""Convolutions by way of spectra: the same sums."""

import math

import pytest
import torch
from applying import on, torch_is_left_as_it_was  # noqa: F401
from probing_help import line_of, probed
from torch import nn
from torch.nn import functional

from hotlap.seam.fourier import fast_length, pays

SERVED = [  # batch, channels, lengths, made, taps, groups, padding
    (2, 8, (1200,), 8, (200,), 8, 0),
    (2, 8, (1201,), 8, (201,), 8, "same"),
    (2, 8, (1200,), 8, (200,), 8, "same"),
    (1, 1, (4000,), 1, (2048,), 1, 1000),
    (2, 3, (4000,), 6, (1500,), 3, "valid"),
    (4, 8, (800,), 8, (300,), 1, (7,)),
    (4, 16, (1200,), 16, (300,), 2, 0),
    (2, 4, (60, 50), 4, (31, 21), 4, (3, 0)),
    (6, 12, (60, 60), 12, (29, 29), 1, 0),
]


def convolve(shape, *, bias=True, dtype=torch.float64, **options):
    batch, channels, lengths, made, taps, groups, padding = shape
    torch.manual_seed(0)
    exact = [
        torch.randn(batch, channels, *lengths, dtype=torch.float64),
        torch.randn(made, channels // groups, *taps, dtype=torch.float64) / math.prod(taps) ** 0.5,
        *([torch.randn(made, dtype=torch.float64)] if bias else []),
    ]
    given = [one.to(dtype).requires_grad_() for one in exact]
    convolution = functional.conv1d if len(taps) == 1 else functional.conv2d
    result = convolution(*given, padding=padding, groups=groups, **options)
    return result.detach(), torch.autograd.grad(result.sin().sum(), given)


@pytest.mark.filterwarnings("ignore:Using padding=.same.:UserWarning")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", SERVED)
def test_the_sums_and_gradients_are_the_same(shape, bias):
    plain = convolve(shape, bias=bias)
    with on("fft_convolution") as seams:
        ours = convolve(shape, bias=bias)
    assert seams.holds["fft_convolution"]
    torch.testing.assert_close(ours, plain)


@pytest.mark.parametrize("shape", SERVED)
def test_in_float32_the_error_is_that_of_float32(shape):
    exact, _ = convolve(shape)
    with on("fft_convolution") as seams:
        ours, _ = convolve(shape, dtype=torch.float32)
    assert seams.holds["fft_convolution"]
    assert (ours - exact).abs().max() < 1e-4 * exact.abs().max()


@pytest.mark.parametrize(
    "options",
    [{"stride": 2}, {"dilation": 2}, {"shape": (2, 8, (1200,), 8, (3,), 8, 1)},
     {"shape": (2, 8, (1200,), 8, (8,), 1, 0)}, {"dtype": torch.bfloat16}],
)  # fmt: skip
def test_other_convolutions_are_left_alone(options):
    shape = options.pop("shape", SERVED[0])
    plain = convolve(shape, **options)
    with on("fft_convolution") as seams:
        ours = convolve(shape, **options)
    assert not seams.holds.get("fft_convolution")
    torch.testing.assert_close(ours, plain, rtol=0, atol=0)


def test_autocast_chooses_the_dtype_of_its_convolutions():
    with on("fft_convolution") as seams, torch.autocast("cpu", torch.bfloat16):
        made = functional.conv1d(torch.randn(2, 8, 1200), torch.randn(8, 1, 200), groups=8)
    assert made.dtype == torch.bfloat16
    assert not seams.holds.get("fft_convolution")


def test_what_cannot_be_convolved_fails_as_before():
    with on("fft_convolution"), pytest.raises(RuntimeError, match="Kernel size"):
        functional.conv1d(torch.randn(2, 8, 10), torch.randn(8, 1, 64), groups=8)


def test_gradients_of_gradients_and_vmap():
    weight = torch.randn(4, 1, 300, dtype=torch.float64, requires_grad=True)
    x = torch.randn(2, 4, 1500, dtype=torch.float64, requires_grad=True)

    def twice():
        made = functional.conv1d(x, weight, groups=4)
        (first,) = torch.autograd.grad(made.sin().sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), weight)[0]

    def mapped():
        return torch.vmap(lambda one: functional.conv1d(one[None], weight, groups=4)[0])(x).detach()

    plain, also = twice(), mapped()
    with on("fft_convolution"):
        torch.testing.assert_close(twice(), plain)
        torch.testing.assert_close(mapped(), also)


def test_without_gradients_more_operations_must_be_saved():
    padded, weight = (16, 64, 1024), (64, 1, 63)
    assert pays(padded, weight, 64, differentiated=True)
    assert not pays(padded, weight, 64, differentiated=False)
    assert not pays((16, 64, 62), weight, 64, differentiated=True)


def smooth(number):
    for factor in (2, 3, 5):
        while number % factor == 0:
            number //= factor
    return number == 1


def test_a_fast_length_is_the_next_product_of_small_primes():
    for least in (*range(1, 300), 99991):
        found = fast_length(least)
        assert smooth(found)
        assert not any(smooth(one) for one in range(least, found))


class Reverberating(nn.Module):
    def __init__(self, taps):
        super().__init__()
        self.room = nn.Conv1d(8, 8, taps, groups=8)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        wet = self.room(x)
        return self.head(wet.mean(-1))


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize(("taps", "seen"), [(512, True), (3, False)])
def test_the_profile_sees_what_long_kernels_take(taps, seen):
    model, x = Reverberating(taps), torch.randn(8, 8, 2000)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    with probed(steps=2) as session:
        for _ in range(9):
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()
    made = session.profile
    assert made["facts"]["long_kernels"] == seen
    assert made["long_kernels"]["seconds"] > (0.3 * made["step"]["mean"] if seen else -1)
    at = line_of(Reverberating.forward, "self.room(x)") if seen else None
    assert made["places"].get("long_kernels") == at
