"""Operators of one's own for training: proved against float64, chosen by measurement.

Each is registered through `torch.library` with its gradient, autocast rule and fake kernel, so that
it works under `torch.compile` and AMP. Each has an implementation in torch's own operations, one in
C for the CPU and one in Triton; which runs is measured once for a device, dtype and size.
"""

from hotlap.kernels.cross_entropy import cross_entropy, linear_cross_entropy
from hotlap.kernels.dispatch import operators, pin, pinned
from hotlap.kernels.gelu import gelu
from hotlap.kernels.norm import add_layer_norm, add_rms_norm, layer_norm, rms_norm
from hotlap.kernels.rotary import rotary
from hotlap.kernels.softmax import softmax
from hotlap.kernels.swiglu import swiglu

__all__ = [
    "add_layer_norm",
    "add_rms_norm",
    "cross_entropy",
    "gelu",
    "layer_norm",
    "linear_cross_entropy",
    "operators",
    "pin",
    "pinned",
    "rms_norm",
    "rotary",
    "softmax",
    "swiglu",
]
