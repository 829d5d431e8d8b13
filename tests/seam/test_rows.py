"""Rows that `index_select` picks in the place of indexing: the same values, whatever the index."""

import copy
import pickle
from collections import Counter
from functools import partial

import pytest
import torch
from applying import on, torch_is_left_as_it_was  # noqa: F401
from probing_help import line_of, probed
from torch import nn

from hotlap.seam.probe.invariants import _Signatures
from hotlap.seam.probe.line_work import IN_PLACE, replaced
from hotlap.seam.probe.result import _most
from hotlap.seam.rows import LEAST_BYTES_DIFFERENTIATED

ROWS, COLUMNS = 300, 96
PICKED = torch.randint(0, ROWS, (800,))


def matrix(dtype=torch.float32, *more):
    made = torch.rand(ROWS, COLUMNS, *more) * 100
    return made.to(dtype)


SERVED = [
    (matrix(), PICKED),
    (matrix(torch.bfloat16), PICKED),
    (matrix(torch.bool), PICKED),
    (matrix(torch.complex64), PICKED),
    (matrix(torch.float32, 3, 2), PICKED),
    (matrix(), PICKED.view(40, 20)),
    (matrix(), PICKED.view(2, 4, 100)),
    (matrix(), PICKED[::2]),
    (nn.Parameter(matrix()), PICKED),
    (matrix().requires_grad_(), PICKED.view(40, 20)),
]


@pytest.mark.parametrize(("tensor", "index"), SERVED)
def test_the_rows_are_the_same_and_so_are_shape_and_layout(tensor, index):
    plain = tensor[index]
    with on("index_select") as seams:
        ours = tensor[index]
    assert seams.holds["index_select"] == [""]
    assert torch.equal(ours, plain)
    assert (ours.shape, ours.stride(), ours.dtype) == (plain.shape, plain.stride(), plain.dtype)
    assert ours.requires_grad == plain.requires_grad


class Named(torch.Tensor):
    """A subclass: what indexing means is its own business."""


LEFT = [
    (matrix(), PICKED - ROWS),  # negative
    (matrix(), PICKED[:2]),  # small
    (matrix(), PICKED[:ROWS] > 5),
    (matrix(), 3),
    (matrix(), -1),
    (matrix(), slice(2, 7)),
    (matrix(), (slice(None), PICKED[:50] % COLUMNS)),
    (matrix(), (PICKED, PICKED % COLUMNS)),
    (matrix(), [2, 1, 0]),
    (matrix(), None),
    (matrix(), torch.tensor(4)),
    (matrix().t(), PICKED % COLUMNS),
    (matrix()[:, 0].contiguous(), PICKED),
    (matrix().as_subclass(Named), PICKED),
    (torch.zeros(0, 4), PICKED[:0]),
]


@pytest.mark.parametrize(("tensor", "index"), LEFT)
def test_other_indexing_is_left_alone(tensor, index):
    plain = tensor[index]
    with on("index_select") as seams:
        ours = tensor[index]
    assert "index_select" not in seams.holds
    assert type(ours) is type(plain)
    assert torch.equal(ours, plain)


def test_an_index_out_of_range_raises_what_torch_raises():
    index = PICKED.index_fill(0, torch.tensor(7), ROWS)
    with pytest.raises(IndexError) as plain:
        matrix()[index]
    with on("index_select"), pytest.raises(IndexError) as ours:
        matrix()[index]
    assert str(ours.value) == str(plain.value)


@pytest.mark.parametrize("threads", [1, 2])
def test_gradients_are_those_of_float64(threads):
    x = torch.randn(ROWS, COLUMNS, dtype=torch.float64)
    weight = torch.randn(len(PICKED), COLUMNS, dtype=torch.float64)

    def gradient(dtype):
        leaf = x.to(dtype, copy=True).requires_grad_()
        (leaf[PICKED] * weight.to(dtype)).square().sum().backward()
        return leaf.grad.double()

    assert len(PICKED) * COLUMNS * 4 >= LEAST_BYTES_DIFFERENTIATED
    exact, before = gradient(torch.float64), torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with on("index_select") as seams:
            ours = gradient(torch.float32)
    finally:
        torch.set_num_threads(before)
    assert seams.holds
    torch.testing.assert_close(ours, exact, rtol=1e-4, atol=1e-4)


def test_it_can_be_differentiated_twice_and_transformed():
    x, y = torch.randn(ROWS, COLUMNS, dtype=torch.float64), PICKED[:9]

    def penalty(x):
        leaf = x.clone().requires_grad_()
        (first,) = torch.autograd.grad(leaf[PICKED].pow(3).sum(), leaf, create_graph=True)
        first.square().sum().backward()
        return leaf.grad

    def loss(x):
        return x[PICKED].pow(3).sum()

    plain = penalty(x), torch.func.grad(loss)(x), torch.vmap(lambda i: x[i])(y)
    with on("index_select"):
        ours = penalty(x), torch.func.grad(loss)(x), torch.vmap(lambda i: x[i])(y)
    for one, other in zip(ours, plain, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.usefixtures("torch_is_left_as_it_was")
def test_tensors_stay_what_they_are():
    assert "__getitem__" not in vars(torch.Tensor)
    with on("index_select"):
        x = matrix()
        assert torch.equal(pickle.loads(pickle.dumps(x)), x)
        assert torch.equal(copy.deepcopy(x), x)
        assert torch.equal(torch.stack(list(x)), x)
        assert len(x[2]) == COLUMNS
    assert "__getitem__" not in vars(torch.Tensor)


class Graph(nn.Module):
    """Messages along edges: rows of the source nodes, added up at the targets."""

    def __init__(self, picks):
        super().__init__()
        self.layer, self.picks = nn.Linear(COLUMNS, COLUMNS), picks

    def forward(self, x):
        x = self.layer(x)
        return self.picks(x).square().mean()


def by_index(x):
    return x[PICKED]


def by_select(x):
    return x.index_select(0, PICKED)


def by_mask(x):
    return x[x.detach().sum(1) > 0]


def profile(picks):
    model, x = Graph(picks), matrix()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    with probed(steps=2) as session:
        for _ in range(9):
            optimizer.zero_grad()
            model(x).backward()
            optimizer.step()
    return session.profile


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize(
    ("picks", "seen"), [(by_index, True), (by_select, False), (by_mask, False)]
)
def test_the_profile_sees_what_picking_rows_takes(picks, seen):
    made = profile(picks)
    assert made["facts"]["row_lookups"] == seen
    assert (made["lookups"]["seconds"] > 0) == seen
    at = line_of(by_index, "return") if seen else None
    assert made["places"].get("row_lookups") == at
    if seen:
        behind = {one["place"]: dict(one["operators"]) for one in made["backward_by_line"]}[at]
        assert made["lookups"]["seconds"] > behind["index_put_"] > 0


def test_operators_that_always_met_a_stall_take_no_longer_than_their_line_was_sampled():
    line = by_index.__code__, 7
    parts = {line: [0.008, 0.002]}
    assert replaced(parts, partial(_most, Counter(), 0.1)).seconds == pytest.approx(0.010)
    stacks = Counter({("backward", (line_at(9),)): 600, ("forward", (line_at(9),)): 400})
    assert replaced(parts, partial(_most, stacks, 0.1)).seconds == pytest.approx(0.0023)
    stacks["forward", (line_at(7), line_at(9))] = 100
    assert replaced(parts, partial(_most, stacks, 0.1)).seconds == pytest.approx(0.010)
    assert replaced({}, partial(_most, stacks, 0.1)).seconds == 0.0


def line_at(line):
    return by_index.__code__, line, 0


@pytest.mark.usefixtures("nothing_compiled")
def test_clearing_the_gradient_of_a_large_table_is_no_part_of_it():
    table = nn.Parameter(torch.randn(100_000, COLUMNS))
    optimizer = torch.optim.SGD([table], lr=1e-9)
    with probed(steps=2) as session:
        for _ in range(9):
            optimizer.zero_grad()
            table[PICKED].square().mean().backward()
            optimizer.step()
    made = session.profile
    (first, *_) = made["backward_by_line"]
    cleared = dict(first["operators"])["new_zeros"]
    assert made["lookups"]["seconds"] < cleared


@pytest.mark.parametrize("twice", [False, True])
def test_gradients_are_those_without_the_probe(twice):
    """Of whole numbers, whose sums are exact in any order."""
    start = torch.randint(-9, 9, (ROWS, COLUMNS)).float()

    def gradient(mode):
        leaf = start.clone().requires_grad_()
        with mode:
            made = leaf[PICKED].square().sum()
            if twice:
                (made,) = torch.autograd.grad(made, leaf, create_graph=True)
            made.square().sum().backward() if twice else made.backward()
        return leaf.grad

    followed = _Signatures()
    followed.off = False
    assert torch.equal(gradient(followed), gradient(torch.enable_grad()))
    _, behind = followed.restart()
    assert IN_PLACE in {run.func for run in behind}
