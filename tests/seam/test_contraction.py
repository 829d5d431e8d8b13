"""`torch.einsum` with its operands in the cheapest order: the same sums."""

import itertools
import math
import random

import pytest
import torch
from applying import on, torch_is_left_as_it_was  # noqa: F401

from hotlap.seam.contraction import best_path


def tensors(equation, sizes, dtype=torch.float64):
    terms = equation.partition("->")[0].split(",")
    return [torch.randn([sizes[letter] for letter in term], dtype=dtype) for term in terms]


LINEAR = "bnhd,bmhd,bmhe->bnhe", {"b": 2, "n": 96, "m": 96, "h": 2, "d": 8, "e": 8}
SERVED = [
    LINEAR,
    ("ij,jk,kl->il", {"i": 64, "j": 4, "k": 64, "l": 2}),
    ("ij,jk,kl", {"i": 64, "j": 4, "k": 64, "l": 2}),
    ("nr,mr,or,mn->o", {"n": 20, "m": 30, "o": 40, "r": 5}),
    ("a,b,ab->", {"a": 50, "b": 60}),
]


@pytest.mark.parametrize(("equation", "sizes"), SERVED)
def test_the_sums_and_gradients_are_the_same(equation, sizes):
    given = [one.requires_grad_() for one in tensors(equation, sizes)]

    def results():
        made = torch.einsum(equation, *given)
        return made.detach(), torch.autograd.grad(made.sin().sum(), given)

    plain = results()
    with on("einsum_order") as seams:
        ours = results()
    assert seams.holds["einsum_order"]
    torch.testing.assert_close(ours, plain)


LEFT = [
    ("ij,jk->ik", {"i": 64, "j": 4, "k": 64}),
    ("ij,jk,kl->il", {"i": 4, "j": 4, "k": 4, "l": 4}),
    ("...j,jk,kl->...l", None),
    ("bmhd,bmhe,bnhd->bnhe", LINEAR[1]),  # the best order as written
]


@pytest.mark.parametrize(("equation", "sizes"), LEFT)
def test_other_calls_are_left_alone(equation, sizes):
    given = (
        tensors(equation, sizes)
        if sizes
        else [torch.randn(3, 40, 2), torch.randn(2, 50), torch.randn(50, 2)]
    )
    plain = torch.einsum(equation, *given)
    with on("einsum_order") as seams:
        ours = torch.einsum(equation, *given)
    assert "einsum_order" not in seams.holds
    assert torch.equal(ours, plain)


def test_a_wrong_call_raises_what_torch_raises():
    given = tensors(*LINEAR)
    given[1] = given[1][:, :, :1, :5]
    with pytest.raises(RuntimeError) as plain:
        torch.einsum(LINEAR[0], *given)
    with on("einsum_order"), pytest.raises(RuntimeError) as ours:
        torch.einsum(LINEAR[0], *given)
    assert str(ours.value)
    assert type(ours.value) is type(plain.value)


def multiplications(terms, output, sizes, path):
    """What an order takes, by the definition."""
    terms, total = list(terms), 0
    for one, other in zip(path[::2], path[1::2], strict=True):
        both = set(terms[one]) | set(terms[other])
        rest = [term for at, term in enumerate(terms) if at not in (one, other)]
        total += math.prod(sizes[letter] for letter in both)
        terms = [*rest, "".join(both & set("".join([output, *rest])))]
    return total


def orders(count):
    """All orders of so many operands."""
    if count == 1:
        yield ()
        return
    for pair in itertools.combinations(range(count), 2):
        for rest in orders(count - 1):
            yield (*pair, *rest)


@pytest.mark.parametrize("seed", range(20))
def test_no_order_takes_fewer_multiplications(seed):
    chance = random.Random(seed)
    count = chance.choice((3, 4, 5))
    terms = ["".join(chance.sample("abcdef", chance.randint(1, 3))) for _ in range(count)]
    output = "".join(chance.sample(sorted(set("".join(terms))), 1))
    sizes = {letter: chance.choice((2, 3, 20, 50)) for letter in "abcdef"}
    path = best_path(
        f"{','.join(terms)}->{output}", tuple(tuple(sizes[x] for x in term) for term in terms)
    )
    costs = [multiplications(terms, output, sizes, order) for order in orders(count)]
    as_written = (
        0,
        1,
        *itertools.chain.from_iterable((0, left) for left in range(count - 2, 0, -1)),
    )
    written = multiplications(terms, output, sizes, as_written)
    if path is None:
        assert written <= 1.5 * min(costs)
    else:
        assert multiplications(terms, output, sizes, path) == min(costs)
