"""Which of the usual resizes a dataset applies: told by its pixels.

A sample is compared with what each resize makes of its file. The correlation of pixels, channel by
channel, does not see how they were scaled and normalised.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path
from typing import Any

import torch

ALIKE = 0.9
"""Other interpolations of an image agree to more than this, other cuts and rotations to less."""
SCALED = 0.02
"""Difference of mean brightness (of 1) up to which only another interpolation is at work."""
NOTHING_DRAWN: Any = None
"""Neither resizing nor cutting out the middle draws random numbers."""
CROP_FROM = 8 / 7
"""How much larger than the crop the short side usually is: 256 for 224."""


Resized = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Fit:
    """A resize: `both` sides, the `short` one with the middle cut out, or from `larger` images.

    `plain`: the samples are the pixels, as bytes or over 255, and not normalised any further.
    """

    how: str
    agreement: float
    plain: bool = False


def fitted(images: torch.Tensor, files: Sequence[str]) -> Fit:
    """Find the resize that gives these samples (n, 3, height, width) from their files."""
    height, width = images.shape[-2:]
    from hotlap.data import Decoder

    decode = Decoder(strict=False)
    pixels = [
        torch.from_numpy(decode(Path(path).read_bytes(), path)).permute(2, 0, 1)[None]
        for path in files
    ]
    ways: dict[str, Resized] = {"both": lambda image: _both(image, height, width)}
    if height == width:
        ways |= {
            "short": lambda image: _short(image, height, height),
            "larger": lambda image: _short(image, round(CROP_FROM * height), height),
        }
    fits = [Fit(how, _agreement(images, pixels, way)) for how, way in ways.items()]
    best = max(fits, key=lambda fit: fit.agreement)
    made = [ways[best.how](file)[0] for file in pixels]
    return replace(best, plain=all(map(_is_plain, images, made)))


def _both(image: torch.Tensor, height: int, width: int) -> torch.Tensor:
    from hotlap.data.transforms.geometry import resized

    return resized(image, height, width)


def _short(image: torch.Tensor, side: int, cut: int) -> torch.Tensor:
    from hotlap.data.transforms import CenterCrop, Resize

    for transform in (Resize(side), CenterCrop(cut)):
        image = transform.batch(image, None, NOTHING_DRAWN)[0]
    return image


def _agreement(images: torch.Tensor, pixels: list[torch.Tensor], way: Resized) -> float:
    """The least correlation among the samples."""
    return min(_alike(own, way(file)[0]) for own, file in zip(images, pixels, strict=True))


def _is_plain(sample: torch.Tensor, resized: torch.Tensor) -> bool:
    """Whether a sample has the mean of its file's pixels over 255, channel by channel."""
    whole = 1.0 if sample.is_floating_point() else 255.0
    means = [one.double().flatten(1).mean(1) for one in (sample / whole, resized / 255.0)]
    return bool((means[0] - means[1]).abs().max() < SCALED)


def _alike(one: torch.Tensor, other: torch.Tensor) -> float:
    """The mean over the channels of the correlation of their pixels."""
    pairs = zip(one.double().flatten(1), other.double().flatten(1), strict=True)
    found = [float(torch.corrcoef(torch.stack(pair))[0, 1]) for pair in pairs]
    known = [value for value in found if not isnan(value)]  # a channel of one value has none
    return sum(known) / len(known) if known else 0.0
