"""Convolutions with long kernels, by way of their spectra."""

from hotlap.core.move import Swap
from hotlap.core.needs import MODEL, NOT_FUSED
from hotlap.core.technique import Claim, Example, Group, How, Need, Numerics, Symptom, Technique

technique = Technique(
    title="Convolve with long kernels by FFT",
    group=Group.COMPUTE,
    numerics=Numerics.ROUNDING,
    how=(How.MOVE,),
    switchable=True,
    inference=True,
    why=(
        "A convolution adds up all taps of its kernel for each output. With hundreds of taps, as "
        "in room impulse responses, filter banks and models of long sequences, the product of two "
        "spectra takes far fewer operations. On the CPU the gradients of depthwise convolutions "
        "are slow from a few dozen taps on."
    ),
    changes="The same sums, with the roundings of the transforms.",
    avoid=(
        "Leave it off where outputs are far smaller than inputs: the error is relative to the "
        "largest value of a signal, not to each output."
    ),
    claims=(
        Claim("goes beyond the articles", "PyTorch documentation, torch.fft"),
        Claim("fewer operations by FFT", "Mathieu, Henaff and LeCun 2013, fast training by FFT"),
    ),
    needs=(
        MODEL,
        NOT_FUSED,
        Need("long_kernels", "no convolution has kernels that are long enough, or next to none"),
    ),
    moves=(
        Swap(
            (
                "torch.nn.functional.conv1d",
                "torch.conv1d",
                "torch.nn.functional.conv2d",
                "torch.conv2d",
            ),
            "hotlap.seam.fourier:convolution",
            serves="hotlap.seam.fourier:serves_convolution",
        ),
    ),
    symptom=Symptom(
        phases=("long_kernels",),
        says=(
            "the kernels are long: a product of spectra takes far fewer operations "
            "(torch.fft.rfft of both, padded; torchaudio.functional.fftconvolve)"
        ),
        place="long_kernels",
        gives=0.5,
    ),
    examples=(
        Example(
            "import torch.nn.functional as F\n\n\n"
            "def reverberate(x, response):\n"
            "    return F.conv1d(x, response, padding=response.shape[-1] - 1)\n",
            "import torch\n\n\n"
            "def reverberate(x, response):\n"
            "    length = x.shape[-1] + response.shape[-1] - 1\n"
            "    spectra = torch.fft.rfft(x, length), torch.fft.rfft(response.flip(-1), length)\n"
            "    return torch.fft.irfft(spectra[0] * spectra[1], length)\n",
        ),
        Example(
            "import torch.nn.functional as F\n\n\n"
            "def smooth(x, taps):\n"
            "    return F.conv1d(x, taps, stride=4)\n"
        ),
    ),
)
