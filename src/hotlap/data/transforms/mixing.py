"""Transforms that mix samples of a batch."""

from dataclasses import dataclass

import torch
from torch.nn import functional

from hotlap.common.extras import FloatArray, need
from hotlap.data.order import Draws
from hotlap.data.transforms.base import Batch, Labels

ATTEMPTS = 64


@dataclass(frozen=True)
class MixUp:
    """Blend each image and its label with the one before it in the batch (Zhang et al., 2018).

    As in torchvision the partner is the batch rolled by one and labels become one-hot floats; the
    share is drawn for each sample rather than once a batch, so that it does not depend on how
    samples fall into batches. The partner does.

    Args:
        alpha: of the Beta(alpha, alpha) distribution, above 0 and at most 2.
        num_classes: length of the one-hot labels.
    """

    num_classes: int
    alpha: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.alpha <= 2:
            raise ValueError(f"MixUp: alpha is {self.alpha}, should be above 0 and at most 2")

    def batch(self, images: torch.Tensor, labels: Labels, draws: Draws) -> Batch:
        """Blend float images (normalise before) and integer labels."""
        if labels is None or not images.is_floating_point():
            raise ValueError("MixUp needs labels and float images: place it after Normalize")
        share = torch.from_numpy(beta(self.alpha, draws)).to(images.device, images.dtype)
        one_hot = functional.one_hot(labels, self.num_classes).to(images.dtype)
        pixels = share[:, None, None, None]
        return (
            images * pixels + images.roll(1, 0) * (1 - pixels),
            one_hot * share[:, None] + one_hot.roll(1, 0) * (1 - share[:, None]),
        )


def beta(alpha: float, draws: Draws) -> FloatArray:
    """Draw Beta(alpha, alpha), one for each sample, by Joehnk's rejection (1964)."""
    numpy = need("numpy")
    share: FloatArray = numpy.full(len(draws.ids), 0.5)
    missing = numpy.ones(len(draws.ids), bool)
    pairs = numpy.log1p(-draws.uniform("mixup", 2 * ATTEMPTS)) / alpha  # log of U^(1/alpha)
    for attempt in range(ATTEMPTS):
        one, other = pairs[:, 2 * attempt], pairs[:, 2 * attempt + 1]
        total = numpy.logaddexp(one, other)
        taken = missing & (total <= 0)
        share[taken] = numpy.exp(one - total)[taken]
        missing &= ~taken
    return share
