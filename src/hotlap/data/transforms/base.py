"""What transforms have in common."""

from typing import Protocol, runtime_checkable

import torch

from hotlap.data.order import Draws

Labels = torch.Tensor | None
Batch = tuple[torch.Tensor, Labels]


@runtime_checkable
class Batched(Protocol):
    """Works on a whole batch, on the device."""

    def batch(self, images: torch.Tensor, labels: Labels, draws: Draws) -> Batch:
        """Return images and labels, changed."""


@runtime_checkable
class Geometry(Batched, Protocol):
    """Also works on one image of any size, where images are decoded."""

    def image(self, image: torch.Tensor, draws: Draws) -> torch.Tensor:
        """Return one image (channels, height, width), changed; `draws` are of one sample."""


def apply(transforms: "tuple[Batched, ...]", batch: Batch, draws: Draws) -> Batch:
    """Apply transforms in turn."""
    for transform in transforms:
        batch = transform.batch(*batch, draws)
    return batch
