"""Transforms that change an image's size."""

import math
from dataclasses import dataclass

import torch
from torch.nn import functional

from hotlap.data.order import Draws
from hotlap.data.transforms.base import Batch, Labels
from hotlap.data.transforms.region import Region

Size = int | tuple[int, int]


def resized(images: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """Resize (samples, channels, height, width), bilinear with antialias: PIL's to within 1.

    uint8 stays uint8; where torch resizes only floats (CUDA), it is rounded.
    """
    if images.shape[-2:] == (height, width):
        return images
    if len(images) == 1:
        images = _striding(images)
    if images.dtype is torch.uint8 and images.is_cuda:
        return resized(images.float(), height, width).round_().clamp_(0, 255).to(torch.uint8)
    return functional.interpolate(
        images, (height, width), mode="bilinear", antialias=True, align_corners=False
    )


def _striding(images: torch.Tensor) -> torch.Tensor:
    """Give a batch of one the stride from image to image that its layout implies.

    `image[None]` of one with channels last in memory has another, by which torch takes it for
    channels first: it then resizes by a slower path, into a layout that has to be turned again.
    """
    return images[0].permute(1, 2, 0)[None].permute(0, 3, 1, 2)


@dataclass(frozen=True)
class Resize:
    """Resize: an int gives the short side, (height, width) both."""

    size: Size

    def image(self, image: torch.Tensor, draws: Draws) -> torch.Tensor:
        """Resize one image."""
        del draws
        return resized(image[None], *self._target(*image.shape[-2:]))[0]

    def region(self, region: Region, draws: Draws) -> Region | None:
        """Return what `image` makes of a region."""
        del draws
        return region.resized(*self._target(*region.shape))

    def batch(self, images: torch.Tensor, labels: Labels, draws: Draws) -> Batch:
        """Resize a batch."""
        del draws
        return resized(images, *self._target(*images.shape[-2:])), labels

    def _target(self, height: int, width: int) -> tuple[int, int]:
        if isinstance(self.size, tuple):
            return self.size
        short, long = min(height, width), max(height, width)
        length = int(self.size * long / short)  # torchvision truncates
        return (self.size, length) if height <= width else (length, self.size)


@dataclass(frozen=True)
class CenterCrop:
    """Cut the middle out; images smaller than it are padded with zeros, as torchvision does."""

    size: Size

    def image(self, image: torch.Tensor, draws: Draws) -> torch.Tensor:
        """Crop one image."""
        del draws
        return self._cropped(image)

    def region(self, region: Region, draws: Draws) -> Region | None:
        """Return what `image` makes of a region; None where it is to be padded."""
        del draws
        height, width = _pair(self.size)
        if height > region.shape[0] or width > region.shape[1]:
            return None
        return region.cropped(*_middle(region.shape, (height, width)), height, width)

    def batch(self, images: torch.Tensor, labels: Labels, draws: Draws) -> Batch:
        """Crop a batch."""
        del draws
        return self._cropped(images), labels

    def _cropped(self, image: torch.Tensor) -> torch.Tensor:
        height, width = _pair(self.size)
        image = _padded(image, height, width)
        top, left = _middle((image.shape[-2], image.shape[-1]), (height, width))
        return image[..., top : top + height, left : left + width]


@dataclass(frozen=True)
class RandomResizedCrop:
    """Crop a random area and shape, then resize to `size`."""

    size: Size
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3.0 / 4.0, 4.0 / 3.0)

    def image(self, image: torch.Tensor, draws: Draws) -> torch.Tensor:
        """Crop and resize one image."""
        top, left, height, width = self.box(image.shape[-2], image.shape[-1], draws)
        crop = image[..., top : top + height, left : left + width]
        return resized(crop[None], *_pair(self.size))[0]

    def region(self, region: Region, draws: Draws) -> Region | None:
        """Return what `image` makes of a region."""
        return region.cropped(*self.box(*region.shape, draws)).resized(*_pair(self.size))

    def batch(self, images: torch.Tensor, labels: Labels, draws: Draws) -> Batch:
        """Crop and resize each image of a batch on its own."""
        crops = [self.image(image, draws.one(index)) for index, image in enumerate(images)]
        last = images.is_contiguous(memory_format=torch.channels_last)
        layout = torch.channels_last if last else torch.contiguous_format
        return torch.stack(crops).contiguous(memory_format=layout), labels

    def box(self, height: int, width: int, draws: Draws) -> tuple[int, int, int, int]:
        """Return (top, left, height, width): torchvision's ten attempts, then a central crop."""
        area = height * width
        low, high = (math.log(bound) for bound in self.ratio)
        for a, b, c, d in draws.uniform("crop", 40)[0].reshape(10, 4).tolist():
            target = area * (self.scale[0] + a * (self.scale[1] - self.scale[0]))
            shape = math.exp(low + b * (high - low))
            w, h = round(math.sqrt(target * shape)), round(math.sqrt(target / shape))
            if 0 < w <= width and 0 < h <= height:
                return int(c * (height - h + 1)), int(d * (width - w + 1)), h, w
        return self._central(height, width)

    def _central(self, height: int, width: int) -> tuple[int, int, int, int]:
        h, w = height, width
        if width / height < self.ratio[0]:
            h = round(width / self.ratio[0])
        elif width / height > self.ratio[1]:
            w = round(height * self.ratio[1])
        return (height - h) // 2, (width - w) // 2, h, w


def _pair(size: Size) -> tuple[int, int]:
    return size if isinstance(size, tuple) else (size, size)


def _middle(shape: tuple[int, int], size: tuple[int, int]) -> tuple[int, int]:
    return round((shape[0] - size[0]) / 2.0), round((shape[1] - size[1]) / 2.0)


def _padded(image: torch.Tensor, height: int, width: int) -> torch.Tensor:
    tall, wide = max(height - image.shape[-2], 0), max(width - image.shape[-1], 0)
    if not (tall or wide):
        return image
    sides = (wide // 2, (wide + 1) // 2, tall // 2, (tall + 1) // 2)
    return functional.pad(image, sides)
