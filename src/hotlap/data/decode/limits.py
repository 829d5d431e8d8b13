"""Limits that hold for every decoder."""

from typing import Protocol

from hotlap.data.errors import SampleError


def check_pixels(width: int, height: int, most: int) -> None:
    """Refuse an image that would take more memory than anyone means it to."""
    if width * height > most:
        raise SampleError(
            f"has {width} x {height} pixels, more than the {most} allowed (max_pixels)"
        )


class DecodeOptions(Protocol):
    """What every decoder goes by."""

    @property
    def exif(self) -> bool:
        """Turn the image as its EXIF orientation says."""

    @property
    def max_pixels(self) -> int:
        """Refuse larger images."""

    @property
    def strict(self) -> bool:
        """Damaged data is an error also where the decoder could go on."""
