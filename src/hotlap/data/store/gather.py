"""Copy rows out of mapped files with code compiled on this machine."""

import ctypes
import platform
import weakref
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from hotlap.common import compiled
from hotlap.common.extras import Array, ByteArray, UIntArray, need

SOURCE = Path(__file__).with_name("gather.c")
LARGE = 4 << 20
"""Bytes from which a batch is written past the caches."""


@cache
def library() -> ctypes.CDLL | None:
    """Return the compiled copy; None where it cannot be had, or was not measured to gain."""
    if platform.machine() != "x86_64":
        return None
    found = compiled.library(SOURCE, flags=("-march=native",))
    if found is not None:
        pointer, number, truth = ctypes.c_void_p, ctypes.c_long, ctypes.c_int
        found.gather.argtypes = (*[pointer] * 3, *[number] * 2, truth, *[pointer] * 3)
        found.map.argtypes, found.map.restype = (ctypes.c_int, number), pointer
        for each in (found.unmap, found.forget):
            each.argtypes, each.restype = (pointer, number), None
    return found


class Maps:
    """Files in the address space for as long as this is held.

    Args:
        library: the compiled copy.
        handles: the files' descriptors, which stay open.
        sizes: their bytes.

    Raises:
        OSError: one cannot be mapped.
    """

    def __init__(self, library: ctypes.CDLL, handles: Sequence[int], sizes: Sequence[int]) -> None:
        numpy = need("numpy")
        self._library = library
        self.handles = numpy.array(handles, "i4")
        self.sizes = numpy.array(sizes, "i8")
        self.starts = numpy.zeros(len(sizes), "u8")
        for number, (handle, size) in enumerate(zip(handles, sizes, strict=True)):
            start = library.map(handle, size)
            if start is None:
                raise OSError(f"cannot map {size} bytes")
            weakref.finalize(self, library.unmap, start, size).atexit = False
            self.starts[number] = start

    def forget(self) -> None:
        """Let the process's memory no longer count what was read; nothing else changes."""
        for start, size in zip(self.starts.tolist(), self.sizes.tolist(), strict=True):
            self._library.forget(start, size)

    def gather(self, addresses: UIntArray, numbers: Array, out: ByteArray) -> bool:
        """Copy rows.

        Args:
            addresses: of the rows, uint64.
            numbers: of the file that each lies in, uint32.
            out: a C-contiguous uint8 array (len(addresses), bytes of a row).

        Returns:
            Whether all were in memory and were copied, and all files are as long as they were; if
            not, what `out` holds is undefined: read them another way.
        """
        given = (array.ctypes.data for array in (out, addresses, numbers))
        files = (array.ctypes.data for array in (self.starts, self.handles, self.sizes))
        return bool(self._library.gather(*given, *out.shape, out.size >= LARGE, *files))
