"""Going on after a stop: at any point, with other batches, workers and world sizes."""

import json
import random

import numpy as np
import torch

from data.loader.making import jpeg_store, raw_store
from hotlap.data import Loader
from hotlap.data.transforms import RandomHorizontalFlip, RandomResizedCrop

AUGMENTED = (RandomResizedCrop(4), RandomHorizontalFlip())


def delivered(loaders, batches=None):
    """{label: image} of the next batches of all ranks, and the labels in the global order."""
    images, order = {}, []
    for number, ranks in enumerate(zip(*loaders, strict=True), 1):
        for pixels, labels in ranks:
            order += labels.tolist()
            images |= dict(zip(labels.tolist(), pixels.clone(), strict=True))
        if number == batches:
            break
    return images, order


def ranks_of(store, world, **how):
    return [
        Loader(store, shuffle=True, seed=6, transform=AUGMENTED, rank=rank, world_size=world, **how)
        for rank in range(world)
    ]


def test_fifty_stops_go_on_in_other_worlds_with_equal_pixels(tmp_path):
    _, store = raw_store(tmp_path)
    whole, order = delivered(ranks_of(store, 1, batch_size=53))
    rng = random.Random(11)
    for _ in range(50):
        before, after = rng.choice((1, 2, 4)), rng.choice((1, 2, 4))
        first = ranks_of(store, before, batch_size=rng.randint(1, 4))
        stop = rng.randint(1, len(first[0]) - 1)
        got, began = delivered(first, stop)
        states = [json.loads(json.dumps(loader.state_dict())) for loader in first]
        assert all(state == states[0] for state in states)
        later = ranks_of(store, after, batch_size=rng.randint(1, 9))
        for loader in later:
            loader.load_state_dict(states[0])
        rest, ended = delivered(later)
        assert began + ended[: len(order) - len(began)] == order
        assert len(began) + len(ended) - len(order) < after  # taken again to share evenly
        _same(got | rest, whole)


def test_stops_go_on_with_other_workers(tmp_path):
    store = jpeg_store(tmp_path)
    whole, order = delivered(ranks_of(store, 1, batch_size=22, workers=0))
    for stop, (before, after) in enumerate([(0, 4), (1, 2), (2, 0), (4, 1)], 1):
        first = ranks_of(store, 1, batch_size=4, workers=before)
        got, began = delivered(first, stop)
        later = ranks_of(store, 1, batch_size=5, workers=after)
        later[0].load_state_dict(first[0].state_dict())
        rest, ended = delivered(later)
        assert began + ended == order
        _same(got | rest, whole)
        first[0].close()
        later[0].close()


def _same(images, others):
    assert images.keys() == others.keys()
    assert all(torch.equal(images[label], others[label]) for label in images)
    assert len(np.unique(list(images))) == len(images)
