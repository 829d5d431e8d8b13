"""One decoder for every image: the fastest library for JPEG, PIL for the rest."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from hotlap.common.extras import ByteArray, has
from hotlap.data.decode import jpeg, pil
from hotlap.data.decode.scratch import Scratch
from hotlap.data.errors import MissingPackageError, SampleError

BACKENDS = ("simplejpeg", "opencv", "pil")
_MODULES = {"simplejpeg": "simplejpeg", "opencv": "cv2", "pil": "PIL"}
_JPEG = b"\xff\xd8\xff"


@dataclass(frozen=True)
class Decoder:
    """Decodes the bytes of one image to a C-contiguous uint8 array (height, width, 3), RGB.

    JPEGs go through `backend`: "simplejpeg" (which reports damage where it breaks the bit stream;
    changed bits that still decode pass every decoder), "opencv" or "pil" (which report files cut
    short); "auto" takes the first that is installed. All three give PIL's pixels to within 1 of
    255. Other formats, and CMYK, go through PIL. Grey becomes RGB, 16 bits are scaled
    to 8 (PIL's own conversion would clip them), transparency is dropped as torchvision does.

    Args:
        backend: which library decodes JPEGs.
        exif: turn the image as its EXIF orientation says; torchvision does not.
        max_pixels: larger images are refused.
        strict: damaged data is an error also where the decoder could go on (simplejpeg only).
        reducing_gap: where a `Loader` makes a JPEG much smaller, decode it at a half, a quarter or
            an eighth of its size, as long as that is still this many times the size asked for (as
            in PIL's `Image.resize`; 2 or 3 are usual). Faster for large photographs, and no longer
            within 1 of PIL's plain resize. None: never.
    """

    backend: str = "auto"
    exif: bool = False
    max_pixels: int = 178_956_970
    strict: bool = True
    reducing_gap: float | None = None

    def __post_init__(self) -> None:
        if self.backend not in {"auto", *BACKENDS}:
            raise ValueError(f"no decoder {self.backend!r}: choose auto or {', '.join(BACKENDS)}")
        if self.reducing_gap is not None and self.reducing_gap < 1:
            raise ValueError(f"reducing_gap is {self.reducing_gap}, should be 1 or more, or None")

    def chosen(self) -> str:
        """Return the library that JPEGs go through here.

        Raises:
            MissingPackageError: none is installed.
        """
        if self.backend != "auto":
            return self.backend
        found = next((name for name in BACKENDS if has(_MODULES[name])), None)
        if found is None:
            raise MissingPackageError(
                "no image decoder is installed: pip install 'hotlap[data]' (or pillow alone)"
            )
        return found

    def __call__(
        self, data: bytes, name: str = "image", scratch: Scratch | None = None
    ) -> ByteArray:
        """Decode.

        Args:
            data: the encoded image.
            name: what errors call it.
            scratch: memory that the pixels may lie in, until the thread's next image.

        Raises:
            SampleError: empty, not an image, truncated, damaged, animated or too large; the
                message begins with `name`.
        """
        if not data:
            raise SampleError(f"{name} is empty")
        try:
            return self._function(data, scratch)(data, self)
        except SampleError as error:
            raise SampleError(f"{name} {error}") from None

    def turns(self, data: bytes) -> bool:
        """Whether `exif` turns this image."""
        return self.exif and pil.orientation(data) != 1

    def _function(
        self, data: bytes, scratch: Scratch | None
    ) -> "Callable[[bytes, Decoder], ByteArray]":
        if not data.startswith(_JPEG) or self.chosen() == "pil":
            return pil.decode
        if self.chosen() == "opencv":
            return jpeg.with_opencv
        return partial(jpeg.with_simplejpeg, scratch=scratch)
