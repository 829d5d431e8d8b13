"""The resize of a dataset is told by its pixels."""

import numpy as np
import pytest
import torch
from PIL import Image

from data.images import folder
from hotlap.seam.probe.fitting import ALIKE, fitted

SIDE = 48


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    return folder(tmp_path_factory.mktemp("photos"), classes=1, each=3, height=180, width=240)


def both(image, kind=Image.BILINEAR):
    return image.resize((SIDE, SIDE), kind)


def short(image, side=SIDE):
    image = image.resize((int(side * image.width / image.height), side), Image.BILINEAR)
    left, top = round((image.width - SIDE) / 2), round((image.height - SIDE) / 2)
    return image.crop((left, top, left + SIDE, top + SIDE))


def samples(paths, transform, scale=1 / 255, shift=0.0):
    arrays = [np.asarray(transform(Image.open(path).convert("RGB")), np.float32) for path in paths]
    return torch.stack([torch.from_numpy(a.transpose(2, 0, 1)) * scale + shift for a in arrays])


@pytest.mark.parametrize(
    ("transform", "how"),
    [
        (both, "both"),
        (lambda image: both(image, Image.BICUBIC), "both"),
        (lambda image: both(image, Image.BOX), "both"),
        (short, "short"),
        (lambda image: short(image, 55), "larger"),
    ],
    ids=["both", "bicubic", "box", "short", "larger"],
)
def test_usual_resizes_are_told_apart_however_scaled(paths, transform, how):
    for scale, shift in ((1 / 255, 0.0), (4 / 255, -2.0), (1.0, 0.0)):
        fit = fitted(samples(paths, transform, scale, shift), [str(path) for path in paths])
        assert fit.how == how
        assert fit.agreement > ALIKE


def test_a_channel_of_one_value_says_nothing(paths):
    images = samples(paths, both)
    images[:, 1] = 0.0
    assert fitted(images, [str(path) for path in paths]).agreement > ALIKE


@pytest.mark.parametrize(
    "transform",
    [
        lambda image: both(image.transpose(Image.FLIP_TOP_BOTTOM)),
        lambda image: both(image.crop((0, 0, 80, 80))),
        lambda image: both(image.rotate(30)),
    ],
    ids=["flipped", "another cut", "rotated"],
)
def test_other_transforms_agree_with_none(paths, transform):
    fit = fitted(samples(paths, transform), [str(path) for path in paths])
    assert fit.agreement < ALIKE


def test_sides_that_differ_can_only_be_both(paths):
    images = samples(paths, lambda image: image.resize((64, SIDE), Image.BILINEAR))
    fit = fitted(images, [str(path) for path in paths])
    assert fit.how == "both"
    assert fit.agreement > 0.99
