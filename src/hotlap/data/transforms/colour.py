"""Transforms that keep an image's size."""

from dataclasses import dataclass

import torch

from hotlap.common.extras import BoolArray
from hotlap.data.order import Draws
from hotlap.data.transforms.base import Batch, Labels


@dataclass(frozen=True)
class RandomHorizontalFlip:
    """Mirror each image with probability `p`."""

    p: float = 0.5

    def batch(self, images: torch.Tensor, labels: Labels, draws: Draws) -> Batch:
        """Flip those whose draw falls below `p`."""
        chosen = torch.from_numpy(self.chosen(draws)).to(images.device)
        return torch.where(chosen[:, None, None, None], images.flip(-1), images), labels

    def chosen(self, draws: Draws) -> BoolArray:
        """Return which samples are mirrored, bool (samples,)."""
        return draws.uniform("flip")[:, 0] < self.p


@dataclass(frozen=True)
class Normalize:
    """(x - mean) / std in `dtype`; uint8 is first scaled to [0, 1], as ToTensor would."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    dtype: torch.dtype = torch.float32

    def batch(self, images: torch.Tensor, labels: Labels, draws: Draws) -> Batch:
        """Normalise, channel by channel."""
        del draws
        scale = 255.0 if images.dtype is torch.uint8 else 1.0
        mean, std = (_channels(values, images.device) for values in (self.mean, self.std))
        out = images.to(torch.float32, copy=True).sub_(mean * scale).div_(std * scale)
        return out.to(self.dtype), labels

    def table(self) -> torch.Tensor:
        """Return what each value of a uint8 RGB pixel becomes: (3, 256) of `dtype`."""
        values = torch.arange(256, dtype=torch.uint8).expand(1, 3, 1, 256)
        return self.batch(values, None, Draws(0, 0, [0]))[0][0, :, 0].contiguous()


def _channels(values: tuple[float, ...], device: torch.device) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32).to(device).view(-1, 1, 1)
