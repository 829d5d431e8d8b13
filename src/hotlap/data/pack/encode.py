"""From a source's sample to the payload that a profile keeps."""

import io

import torch

from hotlap.common.extras import Array, ByteArray, has, need
from hotlap.data.decode import Decoder
from hotlap.data.errors import SampleError
from hotlap.data.pack.settings import Settings
from hotlap.data.pack.sources.base import Sample
from hotlap.data.transforms.geometry import resized

_JPEG = b"\xff\xd8\xff"


class Encoder:
    """Checks a sample, and makes its payload: bytes, or an array of the common shape."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._decode = Decoder(settings.decoder, settings.exif, strict=settings.strict)

    def __call__(self, sample: Sample) -> bytes | Array:
        """Return the payload.

        Raises:
            SampleError: it cannot be decoded.
        """
        profile = self._settings.profile
        if profile == "records":
            return b""
        if profile == "tokens":
            tokens: bytes = sample.data
            return tokens
        return self._row(sample) if profile == "raw" else self._jpeg(sample)

    def _row(self, sample: Sample) -> Array:
        if not isinstance(sample.data, bytes):
            row: Array = sample.data
            return row
        pixels, size = self._decode(sample.data, sample.name), self._settings.resize
        if size is None:
            return pixels
        if isinstance(size, tuple):
            return _sized(pixels, *size)
        return _middle(_sized(pixels, *_short(pixels, size)), size)

    def _jpeg(self, sample: Sample) -> bytes:
        if not isinstance(sample.data, bytes):
            return self._encoded(_image(sample))
        pixels = self._decode(sample.data, sample.name)
        size = self._settings.resize
        if size is None and self._settings.profile == "jpeg256":
            size = 256
        height, width = self._target(pixels, size)
        if (height, width) == pixels.shape[:2] and not self._settings.exif:
            is_jpeg = sample.data.startswith(_JPEG)
            return sample.data if is_jpeg or size is None else self._encoded(pixels)
        return self._encoded(_sized(pixels, height, width))

    def _target(self, pixels: ByteArray, size: int | tuple[int, int] | None) -> tuple[int, int]:
        height, width = pixels.shape[:2]
        if isinstance(size, tuple):
            return size
        return (
            (height, width) if size is None or min(height, width) <= size else _short(pixels, size)
        )

    def _encoded(self, pixels: ByteArray) -> bytes:
        quality = self._settings.quality
        if has("simplejpeg"):
            turbo = need("simplejpeg")
            data: bytes = turbo.encode_jpeg(pixels, quality, "RGB", colorsubsampling="420")
            return data
        buffer = io.BytesIO()
        need("PIL.Image").fromarray(pixels).save(buffer, "JPEG", quality=quality)
        return buffer.getvalue()


def _image(sample: Sample) -> ByteArray:
    array: Array = sample.data
    if array.dtype.name != "uint8" or array.ndim != 3 or array.shape[-1] != 3:
        raise SampleError(
            f"{sample.name} is {array.dtype} {array.shape}, no uint8 RGB image (height, width, 3): "
            "pack it with --profile raw"
        )
    image: ByteArray = need("numpy").ascontiguousarray(array)
    return image


def _short(pixels: ByteArray, side: int) -> tuple[int, int]:
    """Return the size with that short side; torchvision's Resize truncates the long one."""
    height, width = pixels.shape[:2]
    if height <= width:
        return side, int(side * width / height)
    return int(side * height / width), side


def _sized(pixels: ByteArray, height: int, width: int) -> ByteArray:
    image = torch.from_numpy(pixels).permute(2, 0, 1)[None]
    sized: ByteArray = resized(image, height, width)[0].permute(1, 2, 0).contiguous().numpy()
    return sized


def _middle(pixels: ByteArray, side: int) -> ByteArray:
    top = round((pixels.shape[0] - side) / 2.0)
    left = round((pixels.shape[1] - side) / 2.0)
    return pixels[top : top + side, left : left + side]
