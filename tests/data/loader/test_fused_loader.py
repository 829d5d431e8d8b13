"""The loader's one pass over each image, against the same transforms one after the other."""

import numpy as np
import pytest
import torch

from data.loader.making import jpeg_store, mixed_store
from hotlap.data import Decoder, Loader
from hotlap.data.decode import fused
from hotlap.data.loader import images
from hotlap.data.transforms import (
    CenterCrop,
    MixUp,
    Normalize,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
)

NORMAL = Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
HALF = Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225), torch.bfloat16)
CHAINS = [
    (RandomResizedCrop(24), RandomHorizontalFlip(), NORMAL),
    (RandomResizedCrop(24), HALF, RandomHorizontalFlip()),
    (Resize(40), CenterCrop(32), NORMAL),
    (CenterCrop(20), Resize((31, 9)), RandomHorizontalFlip(1.0)),
    (Resize((30, 30)), RandomResizedCrop(16), NORMAL),
    (CenterCrop(400), RandomResizedCrop(16), NORMAL),
    (RandomResizedCrop(24), RandomHorizontalFlip(), NORMAL, MixUp(24)),
]
pytestmark = pytest.mark.skipif(fused.library() is None, reason="no compiler or no libjpeg-turbo")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return mixed_store(tmp_path_factory.mktemp("store"))


def batches(store, transform, epochs=2, **how):
    how = {"batch_size": 5, "shuffle": True, "seed": 3, "workers": 0} | how
    loader = Loader(store, transform=transform, **how)
    found = [(x.clone(), y.clone()) for _ in range(epochs) for x, y in loader]
    loader.close()
    return found


@pytest.mark.parametrize("chain", CHAINS)
def test_it_is_the_same_as_one_transform_after_the_other(store, chain, monkeypatch):
    """Within 1 of 255, as both resizes are within 1 of PIL's; labels and layout are equal."""
    together = batches(store, chain)
    monkeypatch.setattr(images, "library", lambda: None)
    apart = batches(store, chain)
    step = 1.05 / 255 / 0.224 if together[0][0].is_floating_point() else 1
    step += 0.02 if HALF in chain else 0
    for (x, y), (v, w) in zip(together, apart, strict=True):
        assert x.dtype is v.dtype
        assert x.stride() == v.stride()
        assert torch.equal(y, w)
        assert (x.double() - v.double()).abs().max() <= step


def test_flip_and_normalisation_are_bitwise_those_of_a_batch(store):
    """Their place is another only: the pixels that they get are the same ones."""
    crop, flip = RandomResizedCrop(24), RandomHorizontalFlip()
    together = batches(store, (crop, flip, NORMAL))

    class AfterAll:
        """Not known to the loader's pass, so that what follows it runs on the batch."""

        def batch(self, x, labels, draws):
            return x, labels

    apart = batches(store, (crop, AfterAll(), flip, NORMAL))
    assert all(
        torch.equal(x, v) and torch.equal(y, w)
        for (x, y), (v, w) in zip(together, apart, strict=True)
    )


def test_workers_threads_and_resume_change_no_bit(tmp_path):
    store = jpeg_store(tmp_path)
    chain = CHAINS[0]
    wanted = batches(store, chain)
    for workers, threads in ((0, 2), (1, 1), (2, 1), (1, 3)):
        got = batches(store, chain, workers=workers, threads=threads)
        assert all(torch.equal(a[0], b[0]) for a, b in zip(got, wanted, strict=True))
    one = Loader(store, 5, transform=chain, shuffle=True, seed=3, workers=2)
    passed = iter(one)
    next(passed), next(passed)
    state = one.state_dict()
    one.close()
    later = Loader(store, 5, transform=chain, shuffle=True, seed=3, workers=0)
    later.load_state_dict(state)
    first = len(wanted) // 2
    for (x, y), (v, w) in zip(later, wanted[2:first], strict=True):
        assert torch.equal(x, v)
        assert torch.equal(y, w)


def test_batches_for_another_device_travel_as_bytes(store):
    """There the device flips and normalises, and a quarter of the bytes are copied."""
    how, rest = images.per_image(CHAINS[0], Decoder(), on_cpu=False)
    assert how.dtype is torch.uint8
    assert rest == CHAINS[0][1:]
    how, rest = images.per_image(CHAINS[0], Decoder(), on_cpu=True)
    assert how.dtype is torch.float32
    assert rest == ()


def test_a_decoder_that_was_asked_for_is_used(store):
    stepwise = batches(store, CHAINS[0], decoder=Decoder("simplejpeg"))
    fast = batches(store, CHAINS[0])
    gaps = [(a[0] - b[0]).abs().max() for a, b in zip(stepwise, fast, strict=True)]
    assert 0 < max(gaps) < 1.05 / 255 / 0.224


def test_mean_and_deviation_of_one_channel_hold_for_all():
    table = Normalize((0.5,), (0.25,)).table()
    assert table.shape == (3, 256)
    assert np.allclose(table[2], (np.arange(256) / 255 - 0.5) / 0.25, atol=1e-6)
