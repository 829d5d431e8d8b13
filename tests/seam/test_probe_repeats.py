"""Work that a step does several times, as a diagnostic step sees it."""

import contextlib

import pytest
import torch
from probing_help import line_of, probed
from torch import nn
from torch.nn import functional

from hotlap.seam.where import short

pytestmark = pytest.mark.usefixtures("nothing_compiled")
FEATURES = torch.randn(64, 128)
MASK = torch.rand(64, 128)


class Net(nn.Module):
    def __init__(self, twice):
        super().__init__()
        self.heavy, self.light = nn.Linear(128, 256), nn.Linear(256, 4)
        self.twice = twice
        self.counts = [torch.zeros(()) for _ in range(300)]

    def forward(self, x):
        first = self.heavy(x)
        second = self.twice(self, x)
        return self.light(first + second)


def found(twice):
    """The repeats of a training whose model calls `twice` after it has called `heavy` on `x`."""
    model = Net(twice)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with probed(steps=2) as session:
        for _ in range(9):
            x = FEATURES + torch.randn(1)
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
    assert "invariants" not in session.profile["notes"]
    return session.profile["in_vain"]["repeated_in_step"]


def calls(net, x):
    return net.heavy(x)


def thrice(net, x):
    for _ in range(2):
        made = net.heavy(x)
    return made


def detached(net, x):
    with torch.no_grad():
        return net.heavy(x)


@pytest.mark.parametrize(
    ("twice", "times", "differentiated"),
    [(calls, 2, True), (thrice, 3, True), (detached, 2, False)],
)
def test_the_same_layer_on_the_same_input_is_found(twice, times, differentiated):
    (row,) = found(twice)
    place = f"{short(row['path'])}:{row['line']}"
    inner = line_of(thrice, "made = ") if twice is thrice else None
    assert place in {line_of(Net.forward, "second = "), inner}
    assert (row["times"], row["differentiated"]) == (times, differentiated)
    assert row["part"] > 0.9


def on_a_line_with_other_work(net, x):
    return net.heavy(x) + torch.ones(64, 256).square()


def little_of_a_line(net, x):
    return net.heavy(x) + net.heavy(torch.rand(20_000, 128)).mean()


def test_a_part_of_a_line_is_found_where_it_is_a_good_part():
    (row,) = found(on_a_line_with_other_work)
    assert 0.3 <= row["part"] < 1.0
    assert found(little_of_a_line) == []


def other_part(net, x):
    one, other = torch.cat([x, x * 3]).chunk(2)
    return one @ net.heavy.weight.t() + other @ net.heavy.weight.t()


def other_input(net, x):
    return net.heavy(x * 2)


def other_weights(net, x):
    return functional.linear(x, net.heavy.weight + 1, net.heavy.bias)


def random(net, x):
    return net.heavy(functional.dropout(x, 0.1))


def written_between(net, x):
    kept = x.clone()
    with torch.no_grad():
        first = net.heavy(kept)
        kept.mul_(2)
        return first + net.heavy(kept)


def weights_written_between(net, x):
    before = net.heavy.weight.detach().clone()
    net.heavy.weight.data.mul_(2)
    made = functional.linear(x, net.heavy.weight.detach(), net.heavy.bias.detach())
    net.heavy.weight.data.copy_(before)
    return made


def counters(net, x):
    with torch.no_grad():
        for count in net.counts:
            count.add_(1)
            torch._foreach_add_([count], 1.0)
            count.lerp(count.square(), 0.5)
    return net.heavy(x + 1)


def view_written_between(net, x):
    made = x + 1
    with torch.no_grad():
        first = made @ net.heavy.weight.t()
        made[0].mul_(2)
        return first + made @ net.heavy.weight.t()


@pytest.mark.parametrize(
    "twice",
    [
        other_part, other_input, other_weights, random, written_between, weights_written_between,
        view_written_between, counters,
    ],
)  # fmt: skip
def test_what_differs_is_no_repetition(twice):
    assert found(twice) == []


class Unrolled(nn.Module):
    def __init__(self, wrap):
        super().__init__()
        self.inner, self.outer = wrap(nn.Linear(128, 128)), wrap(nn.Linear(128, 128))

    def forward(self, x):
        for _ in range(6):
            gate = self.inner(x).sigmoid()
            x = gate * self.outer(x).tanh()
        return x


def unrolled(wrap, around=contextlib.nullcontext):
    """The profile of a training of layers that each step uses several times."""
    model = Unrolled(wrap)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with probed(steps=2) as session:
        for _ in range(9):
            optimizer.zero_grad()
            with around():
                model(torch.randn(8, 128)).square().mean().backward()
            optimizer.step()
    return session.profile


@pytest.mark.parametrize(
    "wrap", [nn.utils.parametrizations.weight_norm, nn.utils.parametrizations.orthogonal]
)
def test_parametrized_weights_that_are_computed_again_are_one_finding(wrap):
    profile = unrolled(wrap)
    (row,) = profile["in_vain"]["parametrized_weights"]
    lines = {line_of(Unrolled.forward, "self.inner"), line_of(Unrolled.forward, "self.outer")}
    assert f"{short(row['path'])}:{row['line']}" in lines
    assert row["differentiated"]
    assert row["times"] == 6
    assert row["share"] > 0.05
    assert not profile["in_vain"]["repeated_in_step"]


def test_parametrized_weights_that_are_kept_are_not_named():
    wrap = nn.utils.parametrizations.weight_norm
    assert not unrolled(wrap, nn.utils.parametrize.cached)["in_vain"]["parametrized_weights"]
    assert not unrolled(lambda layer: layer)["in_vain"]["parametrized_weights"]
