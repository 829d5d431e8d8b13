"""Call the compiled kernels with tensors."""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import torch

from hotlap.common import compiled
from hotlap.optim.leaves import Leaf

SOURCES = tuple(Path(__file__).parent / name for name in ("layerwise.c", "step.h"))
SPLIT = 1 << 18
"""Elements from which all threads take a tensor together."""
FLAGS = ("-march=native", "-fno-math-errno", "-fno-trapping-math", f"-DSPLIT={SPLIT}L")
THREADED, ALONE = "-fopenmp", "-fopenmp-simd"


def library() -> ctypes.CDLL | None:
    """Return the compiled kernels; None where they are not wanted, or cannot be compiled."""
    return compiled.library(*SOURCES, flags=FLAGS, either=(THREADED, ALONE))


SUFFIX = {torch.float32: "float", torch.float64: "double"}
Scratch = Callable[[int, torch.dtype], torch.Tensor]


class _Tensor(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("weight", "grad", "first", "second", "step")),
        *((name, ctypes.c_long) for name in ("size", "adapt")),
    )


@dataclass(frozen=True, kw_only=True)
class Options:
    """A group's options as the kernels take them, in the order of their struct.

    `scale`: what gradients are multiplied by, -1 to ascend. `corrected`: whether Adam's moments are
    corrected for their bias. `low`, `high`: bounds of the norm of LAMB's weight. `decay`: inside
    the update; `apart`: LARS's beside it. `trust`: LARS's coefficient.
    """

    lr: float
    decay: float
    scale: float = 1.0
    eps: float
    beta1: float = 0.0
    beta2: float = 0.0
    corrected: bool = True
    low: float = 0.0
    high: float = float("inf")
    momentum: float = 0.0
    trust: float = 0.0
    apart: float = 0.0


class _Options(ctypes.Structure):
    _fields_ = tuple((option.name, ctypes.c_double) for option in fields(Options))


def stepped(kernel: str, leaves: Sequence[Leaf], options: Options, scratch: Scratch) -> bool:
    """Make one step of `lamb` or `lars`, if there are compiled kernels for these leaves.

    Args:
        kernel: which.
        leaves: of the CPU, whole, and of one dtype; `step` is counted up.
        options: of their group.
        scratch: gives memory for so many elements of a dtype.

    Returns:
        Whether it was made.
    """
    dtype = leaves[0].weight.dtype
    if dtype not in SUFFIX or not all(map(_alike, leaves)) or (compiled := library()) is None:
        return False
    given = (_Tensor * len(leaves))(*map(_given, leaves))  # type: ignore[misc]
    threads = torch.get_num_threads()
    largest = max(found.weight.numel() for found in leaves)
    stride = min(SPLIT, largest)
    room = scratch(max(largest, threads * stride) if kernel == "lamb" else 0, dtype)
    call = getattr(compiled, f"{kernel}_{SUFFIX[dtype]}")
    call.restype = None
    call(
        given,
        ctypes.c_long(len(leaves)),
        ctypes.byref(_Options(**asdict(options))),
        ctypes.c_void_p(room.data_ptr()),
        ctypes.c_long(stride),
        ctypes.c_int(threads),
    )
    torch.autograd.graph.increment_version([found.weight for found in leaves])
    return True


def _alike(leaf: Leaf) -> bool:
    """Whether all tensors are of one size; torch says of others what is wrong."""
    size = leaf.weight.numel()
    return leaf.grad.numel() == size and all(buffer.numel() == size for buffer in leaf.buffers)


def _given(leaf: Leaf) -> tuple[object, ...]:
    """The fields of a `_Tensor`; an optimizer with one buffer has no second."""
    weight, first, second = leaf.weight, leaf.buffers[0], leaf.buffers[-1]
    return (
        weight.data_ptr(), leaf.grad.data_ptr(), first.data_ptr(), second.data_ptr(),
        leaf.step.data_ptr(), weight.numel(), leaf.adapt,
    )  # fmt: skip
