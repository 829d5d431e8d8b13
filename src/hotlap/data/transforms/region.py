"""Crops and resizes as numbers, before any pixel is decoded."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from hotlap.data.order import Draws


@dataclass(frozen=True)
class Region:
    """A box of an image, resized to `size`, of which a window is kept.

    `box` is (top, left, height, width) in pixels of the image, `window` the same in the resized
    box, `size` is (height, width).
    """

    box: tuple[int, int, int, int]
    size: tuple[int, int]
    window: tuple[int, int, int, int]

    @staticmethod
    def whole(height: int, width: int) -> "Region":
        """Return the region that leaves an image as it is."""
        return Region((0, 0, height, width), (height, width), (0, 0, height, width))

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of what is kept."""
        return self.window[2:]

    def cropped(self, top: int, left: int, height: int, width: int) -> "Region":
        """Keep a part of what is kept now."""
        if self.size == self.box[2:]:
            box = self.box[0] + top, self.box[1] + left, height, width
            return Region(box, (height, width), (0, 0, height, width))
        window = self.window[0] + top, self.window[1] + left, height, width
        return Region(self.box, self.size, window)

    def resized(self, height: int, width: int) -> "Region | None":
        """Resize what is kept; None where it was resized before."""
        if self.shape == (height, width):
            return self
        if self.size != self.box[2:]:
            return None
        return Region(self.box, (height, width), (0, 0, height, width))


@runtime_checkable
class Regional(Protocol):
    """Geometry that can be stated before an image is decoded."""

    def region(self, region: Region, draws: Draws) -> Region | None:
        """Return what is left of a region; None where only `image` can do it."""
