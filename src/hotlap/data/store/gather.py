"""Copy rows out of mapped files with code compiled on this machine."""

import ctypes
import platform
from functools import cache
from pathlib import Path
from typing import Any

from hotlap.common import compiled

SOURCE = Path(__file__).with_name("gather.c")
MEASURED_ON = ("x86_64", "AMD64")
LARGE = 4 << 20
"""Bytes from which a batch is written past the caches."""
DONE = -1


@cache
def library() -> ctypes.CDLL | None:
    """Return the compiled copy, its guard set; None where it cannot be had, or is no gain."""
    if platform.machine() not in MEASURED_ON:
        return None
    found = compiled.library(SOURCE, flags=("-march=native",))
    if found is not None:
        pointer, number = ctypes.c_void_p, ctypes.c_long
        found.gather.argtypes = (pointer, pointer, number, number, ctypes.c_int)
        found.gather.restype = number
        found.guard()
    return found


def gathered(addresses: Any, out: Any) -> bool:
    """Copy rows that lie in mapped files.

    Args:
        addresses: of the rows, uint64.
        out: a C-contiguous uint8 array (len(addresses), bytes of a row).

    Returns:
        Whether all were copied; if not, what `out` holds is undefined: read them another way.

    """
    kernel = library()
    if kernel is None:
        return False
    large = out.size >= LARGE
    return bool(kernel.gather(out.ctypes.data, addresses.ctypes.data, *out.shape, large) == DONE)
