"""Decode a region of a JPEG straight into a batch: crop, resize, flip and normalise in one pass."""

import ctypes
import threading
import weakref
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hotlap.common import compiled
from hotlap.common.extras import Array
from hotlap.data.errors import SampleError
from hotlap.data.transforms.region import Region

if TYPE_CHECKING:
    from hotlap.data.decode.decoder import Decoder

SOURCE, HEADER = (Path(__file__).with_name(name) for name in ("fused.c", "jpeg62.h"))
SYSTEM = "libjpeg.so.62"
_FUNCTIONS = (
    "jpeg_std_error",
    "jpeg_CreateDecompress",
    "jpeg_destroy_decompress",
    "jpeg_mem_src",
    "jpeg_read_header",
    "jpeg_start_decompress",
    "jpeg_crop_scanline",
    "jpeg_skip_scanlines",
    "jpeg_read_scanlines",
    "jpeg_finish_decompress",
    "jpeg_abort_decompress",
)
_SINCE = "jpeg_read_icc_profile"  # in libjpeg-turbo 2.0, before which skipping rows had faults
_END = b"\xff\xd9"


class Header(NamedTuple):
    """What a JPEG says of itself; `plain`: 8 bits, grey or YCbCr."""

    width: int
    height: int
    plain: bool


@cache
def library() -> ctypes.CDLL | None:
    """Return the compiled code, bound to a libjpeg-turbo; None where either cannot be had."""
    found = compiled.library(SOURCE, HEADER, either=("-march=native", ""))
    return found and bound(found)


def bound(code: ctypes.CDLL, paths: Iterable[str] | None = None) -> ctypes.CDLL | None:
    """Hand compiled code the functions of the first libjpeg-turbo that is one; None: of none."""
    pointer, number = ctypes.c_void_p, ctypes.c_int
    code.decoder_new.restype = pointer
    code.decoder_free.argtypes = (pointer,)
    code.decoder_header.argtypes = (pointer, ctypes.c_char_p, ctypes.c_ulong, pointer)
    code.decoder_region.argtypes = (pointer, pointer, pointer, number, pointer)
    code.decoder_message.argtypes = (pointer,)
    code.decoder_message.restype = ctypes.c_char_p
    taken = any(_takes(code, path) for path in paths or turbo_paths())
    return code if taken else None


def turbo_paths() -> Iterator[str]:
    """Yield where a libjpeg-turbo of ABI 6.2 may be: in Pillow's wheel, then in the system."""
    pillow = find_spec("PIL")
    if pillow is not None and pillow.origin:
        package = Path(pillow.origin).parent
        yield from map(str, sorted((package.parent / "pillow.libs").glob("libjpeg-*.so*")))
        yield from map(str, sorted((package / ".dylibs").glob("libjpeg*.dylib")))
    yield SYSTEM


def _takes(code: ctypes.CDLL, path: str) -> bool:
    try:
        turbo = ctypes.CDLL(path)
        getattr(turbo, _SINCE)
        functions = [ctypes.cast(getattr(turbo, name), ctypes.c_void_p) for name in _FUNCTIONS]
    except (OSError, AttributeError):
        return False
    code.bind((ctypes.c_void_p * len(functions))(*functions))
    handle = code.decoder_new()  # libjpeg compares the size of its structure with ours
    if handle:
        code.decoder_free(handle)
    return bool(handle)


class FusedDecoder(threading.local):
    """Decodes regions of JPEGs; each thread has its own buffers.

    Args:
        code: what `library` returned.

    Raises:
        MemoryError: there is none for a decoder.
    """

    def __init__(self, code: ctypes.CDLL) -> None:
        self._code = code
        self._handle = code.decoder_new()
        if not self._handle:
            raise MemoryError("no memory for a JPEG decoder")
        self._owner = _Owner()
        weakref.finalize(self._owner, code.decoder_free, self._handle).atexit = False
        self._found = (ctypes.c_int * 3)()
        self._numbers = (ctypes.c_int * 12)()

    def header(self, data: bytes) -> Header:
        """Read a header; `region` then decodes that image.

        Raises:
            SampleError: it is damaged, or cut short.
        """
        if self._code.decoder_header(self._handle, data, len(data), self._found):
            raise self._damaged()
        if data.rfind(_END) < len(data) // 2:
            raise SampleError("is a damaged JPEG: it is cut short")
        width, height, plain = self._found
        return Header(width, height, bool(plain))

    def region(self, region: Region, flip: bool, table: Array, out: Array, how: "Decoder") -> None:
        """Decode a region of the image whose header was read last; its bytes must still be there.

        Without a reducing gap the pixels are within 1 of those of PIL's crop and bilinear resize of
        the whole image.

        Args:
            region: what is wanted of it.
            flip: mirror it.
            table: what each value of each channel becomes, (3, 256) of 1, 2 or 4 bytes each.
            out: C-contiguous (*region.shape, 3), of the table's dtype.
            how: `strict`: damage in the rows that are decoded is an error. `reducing_gap`.

        Raises:
            SampleError: it is damaged.
        """
        shrink = shrink_of(region, how.reducing_gap)
        self._numbers[:] = [*region.box, *region.size, *region.window, int(flip), shrink]
        warnings = self._code.decoder_region(
            self._handle, self._numbers, out.ctypes.data, table.itemsize, table.ctypes.data
        )
        if warnings < 0 or (warnings and how.strict):
            raise self._damaged()

    def _damaged(self) -> SampleError:
        words = self._code.decoder_message(self._handle).decode("utf-8", "replace")
        return SampleError(f"is a damaged JPEG: {words}")


def shrink_of(region: Region, gap: float | None) -> int:
    """Return how many times smaller the box can be decoded and still be `gap` times its size."""
    if gap is None:
        return 1
    times = min(box / size for box, size in zip(region.box[2:], region.size, strict=True)) / gap
    return next((shrink for shrink in (8, 4, 2) if times >= shrink), 1)


class _Owner:
    """Goes with a thread; what it owned is then freed."""
