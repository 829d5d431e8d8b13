"""Call the operators that are written in C, on CPU tensors."""

import ctypes
from pathlib import Path

import torch
from torch import Tensor

from hotlap.common import compiled

SOURCES = tuple(Path(__file__).with_name(name) for name in ("native.c", "native_body.h"))
FLAGS = (
    "-march=native",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-mprefer-vector-width=512",
)
PORTABLE = FLAGS[1:3]
ELEMENTS_PER_THREAD = 1 << 15  # as `at::parallel_for` splits pointwise operators
SUFFIX = {torch.float32: "float32", torch.bfloat16: "bfloat16"}


def library() -> ctypes.CDLL | None:
    """Return the compiled operators; None where they are not wanted, or cannot be compiled."""
    for flags in (FLAGS, PORTABLE):
        found = compiled.library(*SOURCES, flags=flags, either=("-fopenmp", "-fopenmp-simd"))
        if found is not None:
            return found
    return None


def serves(*tensors: Tensor | None) -> bool:
    """Whether the compiled operators take these tensors: float32 or bfloat16 on the CPU."""
    given = [tensor for tensor in tensors if tensor is not None]
    first = given[0]
    return (
        first.device.type == "cpu"
        and first.dtype in SUFFIX
        and all(t.dtype == first.dtype and t.device == first.device for t in given)
        and library() is not None
    )


def call(operator: str, dtype: torch.dtype, *arguments: Tensor | int | float | None) -> None:
    """Run one operator. Tensors must be contiguous; None becomes a null pointer.

    Raises:
        MemoryError: there is none for the rows that are being worked on.
    """
    code = library()
    assert code is not None, "`serves` was not asked"
    function = getattr(code, f"{operator}_{SUFFIX[dtype]}")
    largest = max(t.numel() for t in arguments if isinstance(t, Tensor))
    threads = min(torch.get_num_threads(), 1 + largest // ELEMENTS_PER_THREAD)
    if function(*map(_converted, arguments), ctypes.c_int(threads)):
        raise MemoryError(f"hotlap.kernels: {operator} needs memory for one row of each thread")


def _converted(value: Tensor | int | float | None) -> object:
    match value:
        case None:
            return ctypes.c_void_p(None)
        case Tensor():
            return ctypes.c_void_p(value.data_ptr())
        case bool():
            return ctypes.c_int(value)
        case float():
            return ctypes.c_double(value)
        case _:
            return ctypes.c_long(value)


def rows_of(tensor: Tensor) -> tuple[int, int]:
    """How many rows a tensor has, and how long its last dimension is."""
    columns = tensor.shape[-1] if tensor.ndim else 1
    return (tensor.numel() // columns if columns else 0), columns
