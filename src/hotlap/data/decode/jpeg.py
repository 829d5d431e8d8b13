"""JPEG by simplejpeg and by OpenCV."""

from hotlap.common.extras import ByteArray, need
from hotlap.data.decode import pil
from hotlap.data.decode.limits import DecodeOptions, check_pixels
from hotlap.data.decode.scratch import Scratch
from hotlap.data.errors import SampleError

_END = b"\xff\xd9"
_INKS = {"CMYK", "YCCK"}


def with_simplejpeg(data: bytes, how: DecodeOptions, scratch: Scratch | None = None) -> ByteArray:
    """Decode by libjpeg-turbo; in strict mode its warnings about damaged data are errors."""
    turbo = need("simplejpeg")
    try:
        height, width, colours, _ = turbo.decode_jpeg_header(data, strict=how.strict)
        check_pixels(width, height, how.max_pixels)
        if colours.upper() in _INKS:
            return pil.decode(data, how)
        room = scratch and scratch.take(height * width * 3)
        pixels = turbo.decode_jpeg(data, "RGB", strict=how.strict, buffer=room)
    except ValueError as error:
        raise SampleError(f"is a damaged JPEG: {error}") from None
    return pil.turned(pixels, data) if how.exif else pixels


def with_opencv(data: bytes, how: DecodeOptions) -> ByteArray:
    """Decode by OpenCV; a missing end is an error, damage inside goes unnoticed."""
    cv2, numpy = need("cv2"), need("numpy")
    width, height = pil.header(data, how)
    check_pixels(width, height, how.max_pixels)
    if pil.inks(data):
        return pil.decode(data, how)
    if how.strict and data.rfind(_END) < len(data) // 2:
        raise SampleError("is a damaged JPEG: it is cut short")
    flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
    pixels = cv2.imdecode(numpy.frombuffer(data, numpy.uint8), flags)
    if pixels is None:
        raise SampleError("is a damaged JPEG")
    pixels = cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)
    return pil.turned(pixels, data) if how.exif else pixels
