import random

import numpy as np
import pytest

from hotlap.data.loader.plan import Plan


def plan(count, batch, *, rank=0, world=1, drop_last=False, shuffle=True):
    return Plan(count, batch, shuffle, 5, drop_last, rank, world)


def ids(plan, epoch=0, delivered=0):
    return [step.ids.tolist() for step in plan.steps(epoch, delivered)]


def flat(batches):
    return [index for batch in batches for index in batch]


@pytest.mark.parametrize("count", [0, 1, 7, 24, 25])
@pytest.mark.parametrize("drop_last", [False, True])
def test_one_rank_sees_each_sample_once(count, drop_last):
    batches = ids(plan(count, 6, drop_last=drop_last))
    seen = flat(batches)
    assert len(batches) == len(plan(count, 6, drop_last=drop_last))
    assert len(set(seen)) == len(seen) == (count // 6 * 6 if drop_last else count)


@pytest.mark.parametrize("count", [16, 17, 29, 31])
def test_the_global_order_does_not_depend_on_the_world(count):
    whole = plan(count, 8).order(2).tolist()
    for world in (1, 2, 4):
        ranks = [ids(plan(count, 8 // world, rank=r, world=world), 2) for r in range(world)]
        joined = [i for step in zip(*ranks, strict=True) for share in step for i in share]
        assert joined[:count] == whole
        assert joined[count:] == whole[: len(joined) - count]
        assert len(joined) - count < world


def test_all_ranks_have_equal_batches():
    rng = random.Random(1)
    for _ in range(200):
        count, batch, world = rng.randint(1, 60), rng.randint(1, 9), rng.randint(1, 5)
        drop = rng.random() < 0.5
        ranks = [plan(count, batch, rank=r, world=world, drop_last=drop) for r in range(world)]
        sizes = [[len(share) for share in ids(each)] for each in ranks]
        assert all(size == sizes[0] for size in sizes)
        assert all(len(each) == len(size) for each, size in zip(ranks, sizes, strict=True))
        if drop:
            assert set(sizes[0]) <= {batch}


def test_going_on_gives_the_rest_of_the_order():
    whole = plan(50, 4).order(3).tolist()
    for delivered in (0, 3, 20, 49, 50):
        assert flat(ids(plan(50, 7), 3, delivered)) == whole[delivered:]


def test_without_shuffling_samples_come_in_order():
    assert flat(ids(plan(10, 3, shuffle=False))) == list(range(10))


def test_delivered_counts_all_ranks_and_stops_at_the_epoch():
    steps = list(plan(29, 3, rank=1, world=2).steps(0))
    assert [step.delivered for step in steps] == [6, 12, 18, 24, 29]
    assert all(isinstance(step.ids, np.ndarray) for step in steps)
