"""Live bytes by owner, FLOPs and traffic, against sums done by hand."""

import random

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F  # noqa: N812

from hotlap.parallel.dryrun.ledger import Ledger
from hotlap.parallel.dryrun.watch import Watch


@pytest.fixture(params=[False, True], ids=["real", "fake"])
def world(request):
    from contextlib import nullcontext

    return FakeTensorMode() if request.param else nullcontext()


def test_bytes_come_change_hands_and_go(world):
    n = random.randint(100, 1000)
    with world, Watch() as watch:
        kept = torch.zeros(n)
        view = kept.view(1, n)
        assert watch.ledger.now["activations"] == 4 * n
        watch.ledger.own([view], "parameters")
        passing = kept + 1
        del passing
    assert watch.ledger.now["parameters"] == 4 * n
    assert watch.ledger.now["activations"] == 0
    assert watch.ledger.peak == 8 * n
    assert watch.ledger.at_peak == {"parameters": 4 * n, "activations": 4 * n}
    watch.ledger.restart()
    assert watch.ledger.peak == 4 * n


def test_a_storage_that_changes_size_is_gathered_weights(world):
    before = torch.UntypedStorage.resize_, "resize_" in vars(torch.UntypedStorage)
    with world, Watch() as watch:
        whole = torch.zeros(64)
        whole.untyped_storage().resize_(0)
        assert sum(watch.ledger.now.values()) == 0
        whole.untyped_storage().resize_(256)
    assert watch.ledger.now["gathered"] == 256
    assert before == (torch.UntypedStorage.resize_, "resize_" in vars(torch.UntypedStorage))


def test_what_was_there_before_is_taken_in_by_its_owner():
    ledger, tensor = Ledger(), torch.zeros(8)
    ledger.own([tensor], "optimizer")
    del tensor
    assert ledger.peak == 32
    assert sum(ledger.now.values()) == 0


def test_flops_of_products_and_attention(world):
    b, h, s, d = (random.randint(2, 9) for _ in range(4))
    with world, Watch() as watch:
        x, w = torch.zeros(b, s, requires_grad=True), torch.zeros(s, d, requires_grad=True)
        (x @ w).sum().backward()
        assert watch.flops == 3 * 2 * b * s * d
        watch.restart()
        q, k, v = (torch.zeros(b, h, s, 8, requires_grad=True) for _ in range(3))
        F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()
    assert watch.flops == 3 * 4 * b * h * s * s * 8
