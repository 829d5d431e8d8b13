"""Limits that hold for every decoder."""

from hotlap.data.errors import SampleError


def check_pixels(width: int, height: int, most: int) -> None:
    """Refuse an image that would take more memory than anyone means it to."""
    if width * height > most:
        raise SampleError(
            f"has {width} x {height} pixels, more than the {most} allowed (max_pixels)"
        )
