import math

import numpy as np
import pytest
import torch
from PIL import Image

from data.images import photo
from hotlap.data.order import Draws
from hotlap.data.transforms import (
    CenterCrop,
    MixUp,
    Normalize,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
)
from hotlap.data.transforms.mixing import beta


def tensor(array):
    return torch.from_numpy(array).permute(2, 0, 1)


def draws(count, seed=0, epoch=0):
    return Draws(seed, epoch, np.arange(count) * 7 + 3)


def batch(count=5, height=40, width=60):
    return torch.stack([tensor(photo(seed, height, width)) for seed in range(count)])


@pytest.mark.parametrize(("height", "width"), [(120, 160), (163, 121), (375, 500), (64, 64)])
@pytest.mark.parametrize("size", [56, (48, 80)])
def test_resize_is_pils_to_within_one(height, width, size):
    array = photo(height, height, width)
    got = Resize(size).image(tensor(array), draws(1))
    if isinstance(size, int):
        long = int(size * max(height, width) / min(height, width))
        target = (size, long) if height <= width else (long, size)
    else:
        target = size
    assert tuple(got.shape) == (3, *target)
    wanted = Image.fromarray(array).resize(target[::-1], Image.BILINEAR)
    gap = (got.permute(1, 2, 0).int() - torch.from_numpy(np.asarray(wanted).astype("i4"))).abs()
    assert gap.max() <= 1


def test_a_batch_is_resized_and_cropped_like_its_images():
    images = batch()
    for transform in (Resize(24), CenterCrop(20), CenterCrop((30, 90)), RandomResizedCrop(16)):
        got, labels = transform.batch(images, torch.arange(5), draws(5))
        for index in range(5):
            alone = transform.image(images[index], draws(5).one(index))
            assert torch.equal(got[index], alone)
        assert labels.tolist() == list(range(5))


def test_center_crop_takes_the_middle_and_pads():
    image = torch.arange(5 * 7).view(1, 5, 7)
    assert torch.equal(CenterCrop(3).image(image, draws(1)), image[:, 1:4, 2:5])
    padded = CenterCrop((5, 9)).image(image, draws(1))
    assert torch.equal(padded[:, :, 1:8], image)
    assert padded[:, :, [0, 8]].sum() == 0


def test_random_resized_crop_keeps_its_bounds():
    crop = RandomResizedCrop(8, scale=(0.2, 0.6), ratio=(0.5, 2.0))
    many = draws(400)
    boxes = [crop.box(90, 120, many.one(i)) for i in range(400)]
    for top, left, h, w in boxes:
        assert 0 <= top <= 90 - h
        assert 0 <= left <= 120 - w
        assert 0.18 <= h * w / (90 * 120) <= 0.63
        assert 0.45 <= w / h <= 2.2
    assert len(set(boxes)) > 390
    shares = np.array([h * w / (90 * 120) for _, _, h, w in boxes])
    assert abs(shares.mean() - 0.4) < 0.03


def test_random_resized_crop_falls_back_to_the_middle():
    crop = RandomResizedCrop(8, scale=(1.0, 1.0))
    assert crop.box(10, 100, draws(1)) == (0, (100 - 13) // 2, 10, 13)
    assert crop.box(100, 10, draws(1)) == ((100 - 13) // 2, 0, 13, 10)


def test_flip_mirrors_some_and_leaves_the_rest():
    images = batch(200, 4, 6)
    got, _ = RandomHorizontalFlip().batch(images, None, draws(200))
    flipped = torch.tensor([torch.equal(g, i.flip(-1)) for g, i in zip(got, images, strict=True)])
    kept = torch.tensor([torch.equal(g, i) for g, i in zip(got, images, strict=True)])
    assert bool((flipped ^ kept).all())
    assert 70 < flipped.sum() < 130
    assert torch.equal(RandomHorizontalFlip(0.0).batch(images, None, draws(200))[0], images)
    assert torch.equal(
        RandomHorizontalFlip(1.0).batch(images, None, draws(200))[0], images.flip(-1)
    )


def test_normalize_is_totensor_and_normalize():
    images = batch()
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    m, s = (torch.tensor(v).view(3, 1, 1) for v in (mean, std))
    before = images.clone()
    got, _ = Normalize(mean, std).batch(images, None, draws(5))
    torch.testing.assert_close(got, (images.float() / 255 - m) / s)
    floats = images.float() / 255
    again, _ = Normalize(mean, std).batch(floats, None, draws(5))
    torch.testing.assert_close(again, got)
    assert torch.equal(images, before)
    assert torch.equal(floats, before.float() / 255)
    half, _ = Normalize(mean, std, torch.bfloat16).batch(images, None, draws(5))
    assert half.dtype is torch.bfloat16


def test_mixup_blends_with_the_one_before():
    images, labels = batch(6).float(), torch.tensor([0, 1, 2, 3, 0, 1])
    share = torch.from_numpy(beta(0.3, draws(6))).float()
    got, soft = MixUp(4, 0.3).batch(images, labels, draws(6))
    for i in range(6):
        j = i - 1
        want = images[i] * share[i] + images[j] * (1 - share[i])
        torch.testing.assert_close(got[i], want)
        row = torch.zeros(4)
        row[labels[i]] += share[i]
        row[labels[j]] += 1 - share[i]
        torch.testing.assert_close(soft[i], row)


@pytest.mark.parametrize("alpha", [0.2, 0.5, 1.0, 2.0])
def test_shares_follow_the_beta_distribution(alpha):
    share = beta(alpha, draws(20_000))
    variance = 1 / (4 * (2 * alpha + 1))
    assert abs(share.mean() - 0.5) < 0.01
    assert math.isclose(share.var(), variance, rel_tol=0.04)
    assert 0 <= share.min() <= share.max() <= 1


def test_mixup_says_what_it_needs():
    with pytest.raises(ValueError, match="place it after Normalize"):
        MixUp(4).batch(batch(2), torch.tensor([0, 1]), draws(2))
    with pytest.raises(ValueError, match="alpha is 0"):
        MixUp(4, 0)


def test_one_image_keeps_its_layout_when_it_is_resized():
    """Channels last in memory stays so: turning the result again costs more than resizing."""
    pixels = torch.randint(0, 256, (61, 83, 3), dtype=torch.uint8)
    for image in (pixels.permute(2, 0, 1), pixels[5:50, 7:70].permute(2, 0, 1)):
        resized = Resize((20, 30)).image(image, draws(1))
        assert resized.permute(1, 2, 0).is_contiguous()
        planes = Resize((20, 30)).image(image.contiguous(), draws(1))
        assert planes.is_contiguous()
        assert torch.equal(resized, planes)


def torchvisions_box(height, width, rng, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3)):
    """RandomResizedCrop.get_params as torchvision documents it: (top, left, height, width)."""
    for _ in range(10):
        target = height * width * rng.uniform(*scale)
        aspect = math.exp(rng.uniform(math.log(ratio[0]), math.log(ratio[1])))
        w, h = round(math.sqrt(target * aspect)), round(math.sqrt(target / aspect))
        if 0 < w <= width and 0 < h <= height:
            return rng.integers(height - h + 1), rng.integers(width - w + 1), h, w
    if width / height < ratio[0]:
        w, h = width, round(width / ratio[0])
    elif width / height > ratio[1]:
        w, h = round(height * ratio[1]), height
    else:
        w, h = width, height
    return (height - h) // 2, (width - w) // 2, h, w


def kolmogorov_smirnov(one, other):
    """The largest distance of two empirical distributions."""
    one, other = np.sort(one), np.sort(other)
    points = np.concatenate([one, other])
    shares = [np.searchsorted(x, points, side="right") / len(x) for x in (one, other)]
    return np.abs(shares[0] - shares[1]).max()


@pytest.mark.parametrize(
    ("height", "width"), [(375, 500), (500, 375), (224, 224), (120, 640), (900, 130)]
)
def test_boxes_are_distributed_as_torchvisions(height, width):
    """Place, sides and area; equal distributions pass the bound once in 10,000 times."""
    count, rng = 4000, np.random.default_rng(height)
    many, crop = draws(count, seed=width), RandomResizedCrop(224)
    ours = np.array([crop.box(height, width, many.one(i)) for i in range(count)])
    theirs = np.array([torchvisions_box(height, width, rng) for _ in range(count)])
    bound = 2.23 * math.sqrt(2 / count)
    for column in range(4):
        assert kolmogorov_smirnov(ours[:, column], theirs[:, column]) < bound
    areas = [boxes[:, 2] * boxes[:, 3] for boxes in (ours, theirs)]
    assert kolmogorov_smirnov(*areas) < bound


def test_one_sample_draws_what_its_batch_draws():
    many = draws(6)
    for place in range(6):
        alone = Draws(0, 0, many.ids[place : place + 1])
        for stream, count in (("crop", 40), ("flip", 1)):
            assert np.array_equal(many.one(place).uniform(stream, count)[0],
                                  alone.uniform(stream, count)[0])  # fmt: skip
