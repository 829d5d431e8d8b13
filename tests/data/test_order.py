import numpy as np
import pytest

from hotlap.data.order import Draws, key, mixed, permutation


@pytest.mark.parametrize("count", [0, 1, 2, 17, 1000])
def test_every_sample_comes_once(count):
    order = permutation(count, 3, 5)
    assert sorted(order.tolist()) == list(range(count))


def test_orders_differ_by_seed_and_epoch_and_repeat():
    orders = {tuple(permutation(50, s, e).tolist()) for s in range(10) for e in range(10)}
    assert len(orders) == 100
    assert permutation(50, 4, 4).tolist() == permutation(50, 4, 4).tolist()


def test_the_order_is_the_one_that_was_promised():
    """Resuming an old checkpoint needs the same order for ever."""
    assert permutation(12, 7, 1).tolist() == PROMISED


PROMISED = [11, 7, 0, 8, 5, 3, 4, 2, 9, 10, 6, 1]


def test_every_place_is_equally_likely():
    counts = np.zeros((8, 8))
    for epoch in range(4000):
        counts[np.arange(8), permutation(8, 1, epoch)] += 1
    chi = ((counts - 500) ** 2 / 500).sum()
    assert 15 < chi < 110  # 49 degrees of freedom


def test_scrambling_is_one_to_one():
    assert len(np.unique(mixed(np.arange(100_000)))) == 100_000


def test_keys_depend_on_every_part_and_its_place():
    keys = {key(1, 2), key(2, 1), key(1, 2, 0), key(1), key(-1), key(0)}
    assert len(keys) == 6


def test_draws_belong_to_the_sample_not_to_the_batch():
    ids = np.random.default_rng(0).permutation(100)
    whole = Draws(3, 4, ids).uniform("crop", 5)
    assert whole.shape == (100, 5)
    for index in (0, 40, 99):
        assert np.array_equal(Draws(3, 4, [ids[index]]).uniform("crop", 5)[0], whole[index])
        assert np.array_equal(Draws(3, 4, ids).one(index).uniform("crop", 5)[0], whole[index])


def test_draws_are_uniform_and_independent():
    a = Draws(0, 0, np.arange(20_000)).uniform("a", 2)
    b = Draws(0, 0, np.arange(20_000)).uniform("b")[:, 0]
    later = Draws(0, 1, np.arange(20_000)).uniform("a", 2)
    assert 0 <= a.min() < 0.001
    assert 0.999 < a.max() < 1
    assert abs(a.mean() - 0.5) < 0.01
    assert abs(a.var() - 1 / 12) < 0.002
    for one, other in (
        (a[:, 0], a[:, 1]),
        (a[:, 0], b),
        (a[:, 0], later[:, 0]),
        (a[:-1, 0], a[1:, 0]),
    ):
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.03
