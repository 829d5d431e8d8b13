"""Copy rows out of mapped files with code compiled on this machine."""

import ctypes
import mmap
import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hotlap.common import compiled
from hotlap.data.extras import need

SOURCE = Path(__file__).with_name("gather.c")
MEASURED_ON = ("x86_64", "AMD64")
LARGE = 4 << 20
"""Bytes from which a batch is written past the caches."""


@cache
def library() -> ctypes.CDLL | None:
    """Return the compiled copy, its guard set; None where it cannot be had, or is no gain."""
    if platform.machine() not in MEASURED_ON:
        return None
    found = compiled.library(SOURCE, flags=("-march=native",))
    if found is not None:
        pointer, number, truth = ctypes.c_void_p, ctypes.c_long, ctypes.c_int
        found.gather.argtypes = (*[pointer] * 3, *[number] * 2, truth, *[pointer] * 2)
        found.guard()
    return found


@dataclass(frozen=True)
class Maps:
    """Files that are mapped for as long as this is held.

    Args:
        files: the maps, each of a whole file.
        handles: the files' descriptors, int32.
        sizes: their bytes, int64.

    """

    files: tuple[mmap.mmap, ...]
    handles: Any
    sizes: Any

    def starts(self) -> Any:
        """Return the address at which each begins, uint64."""
        numpy = need("numpy")
        return numpy.array([numpy.frombuffer(file, "u1").ctypes.data for file in self.files], "u8")


def gathered(maps: Maps, addresses: Any, numbers: Any, out: Any) -> bool:
    """Copy rows that lie in mapped files.

    Args:
        maps: the files.
        addresses: of the rows, uint64.
        numbers: of the file that each lies in, uint32.
        out: a C-contiguous uint8 array (len(addresses), bytes of a row).

    Returns:
        Whether all were copied, and all files are as long as they were; if not, what `out` holds is
        undefined: read them another way.

    """
    kernel = library()
    if kernel is None:
        return False
    whole = kernel.gather(
        *(array.ctypes.data for array in (out, addresses, numbers)),
        *out.shape,
        out.size >= LARGE,
        *(array.ctypes.data for array in (maps.handles, maps.sizes)),
    )
    return bool(whole)
