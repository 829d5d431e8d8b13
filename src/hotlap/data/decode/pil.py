"""Every format by PIL, and what only PIL knows about JPEGs."""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hotlap.common.extras import Array, ByteArray, need
from hotlap.data.decode.limits import DecodeOptions, check_pixels
from hotlap.data.errors import MissingPackageError, SampleError

if TYPE_CHECKING:
    from PIL.Image import Image

_SIXTEEN = {"I;16", "I;16B", "I;16L", "I;16N"}
_STILL = {"JPEG", "MPO"}  # a camera's MPO is a JPEG with a preview behind it
_ORIENTATION = 0x0112


def decode(data: bytes, how: DecodeOptions) -> ByteArray:
    """Decode any format that PIL reads."""
    with _opened(data) as image:
        check_pixels(image.width, image.height, how.max_pixels)
        if image.format not in _STILL and (frames := getattr(image, "n_frames", 1)) > 1:
            raise SampleError(f"is animated ({frames} frames): only still images are read")
        image.load()
        return _rgb(need("PIL.ImageOps").exif_transpose(image) if how.exif else image)


def header(data: bytes, how: DecodeOptions) -> tuple[int, int]:
    """Return (width, height) without decoding."""
    del how
    with _opened(data) as image:
        return int(image.width), int(image.height)


def inks(data: bytes) -> bool:
    """Whether it is a CMYK image."""
    with _opened(data) as image:
        return bool(image.mode == "CMYK")


def orientation(data: bytes) -> int:
    """Return the EXIF orientation; 1 where the image says nothing."""
    with _opened(data) as image:
        found: int = image.getexif().get(_ORIENTATION, 1)
        return found


def turned(pixels: ByteArray, data: bytes) -> ByteArray:
    """Turn decoded pixels as the EXIF orientation says."""
    which = orientation(data)
    if which == 1:
        return pixels
    numpy = need("numpy")
    if which >= 5:
        pixels = pixels.transpose(1, 0, 2)
    vertical, horizontal = FLIPS.get(which, (False, False))
    pixels = pixels[::-1] if vertical else pixels
    pixels = pixels[:, ::-1] if horizontal else pixels
    turned: ByteArray = numpy.ascontiguousarray(pixels)
    return turned


# EXIF orientation -> (flip vertically, flip horizontally), after the transposition of 5 to 8.
FLIPS = {
    2: (False, True),
    3: (True, True),
    4: (True, False),
    6: (False, True),
    7: (True, True),
    8: (True, False),
}


@contextmanager
def _opened(data: bytes) -> Iterator["Image"]:
    """Open by PIL; whatever PIL raises on bad data becomes a SampleError."""
    pil = need("PIL.Image")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pil.open(io.BytesIO(data)) as image:
                yield image
    except (SampleError, MissingPackageError):
        raise
    except pil.UnidentifiedImageError:
        raise SampleError("is not an image, or of a format that PIL does not read") from None
    except pil.DecompressionBombError as error:
        raise SampleError(f"is too large: {error}") from None
    except Exception as error:  # PIL's plug-ins raise all kinds on damaged files
        raise SampleError(f"is damaged: {error or type(error).__name__}") from None


def _rgb(image: "Image") -> ByteArray:
    numpy = need("numpy")
    if image.mode in _SIXTEEN or image.mode == "I":
        return _eight(numpy.asarray(image))
    if image.mode == "F":
        raise SampleError("has float pixels, whose range is not known: pack it as a tensor")
    pixels: ByteArray = numpy.array(image if image.mode == "RGB" else image.convert("RGB"))
    return pixels


def _eight(deep: Array) -> ByteArray:
    """Scale 16-bit grey to 8 bits, rounding to nearest, on three channels."""
    wide = deep.astype("i8")
    if wide.size and not 0 <= wide.min() <= wide.max() <= 65535:
        raise SampleError("has 32-bit pixels, whose range is not known: pack it as a tensor")
    grey = ((wide * 255 + 32767) // 65535).astype("u1")
    return grey[:, :, None].repeat(3, axis=2)
