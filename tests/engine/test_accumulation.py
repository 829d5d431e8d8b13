"""Groups of micro-batches and what their losses weigh."""

import math
import random

import pytest
import torch

from hotlap.engine import grouped


def test_one_micro_batch_is_handed_on_as_it_comes() -> None:
    reads: list[int] = []

    def reading() -> object:
        for index in range(3):
            reads.append(index)
            yield index

    stream = grouped(reading(), 1)  # type: ignore[arg-type]
    batch, share = next(stream)
    assert (batch, share.over, share.last, share.of) == (0, 1.0, True, 1)
    assert reads == [0]  # nothing is read ahead


@pytest.mark.parametrize("size", [2, 3, 5])
def test_shares_of_a_step_add_up_to_one(size: int) -> None:
    number = random.Random(size).randint(7, 23)
    found = list(grouped(range(number), size))
    assert [batch for batch, _ in found] == list(range(number))
    steps = [index for index, (_, share) in enumerate(found) if share.last]
    assert len(steps) == math.ceil(number / size)
    assert steps[-1] == number - 1
    begin = 0
    for end in steps:
        shares = [share for _, share in found[begin : end + 1]]
        assert sum(1 / s.over for s in shares) == pytest.approx(1.0)
        assert {s.of for s in shares} == {len(shares)}
        begin = end + 1


def test_tokens_weigh_as_in_one_large_batch() -> None:
    torch.manual_seed(0)
    lengths = [5, 1, 9, 3, 4]
    rows = [torch.randn(n, requires_grad=True) for n in lengths]
    whole = torch.cat([row.detach() for row in rows[:3]]).requires_grad_()
    whole.square().mean().backward()
    for row, share in list(grouped(rows, 3, weigh=len))[:3]:
        (row.square().mean() / share.over).backward()
    mine = torch.cat([row.grad for row in rows[:3] if row.grad is not None])
    assert torch.allclose(mine, whole.grad)  # type: ignore[arg-type]


def test_a_batch_without_tokens_weighs_nothing_and_a_step_without_any_is_an_error() -> None:
    shares = [share for _, share in grouped([0, 4], 2, weigh=float)]
    assert shares[0].over == math.inf
    with pytest.raises(ValueError, match="add up to 0"):
        list(grouped([0, 0], 2, weigh=float))
