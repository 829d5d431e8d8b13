"""Results that nothing uses, as two diagnostic steps see them."""

import pytest
import torch
from probing_help import line_of, probed
from torch import nn
from torch.nn import functional

from hotlap.seam.where import short

pytestmark = pytest.mark.usefixtures("nothing_compiled")
WIDTH = 192


class Net(nn.Module):
    """All stages run; `ending` makes the loss of what they gave."""

    def __init__(self, ending):
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.pool = nn.MaxPool1d(2)
        self.third = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.ReLU(inplace=True))
        self.norm = nn.BatchNorm1d(WIDTH)
        self.kept = []
        self.ending = ending

    def forward(self, x):
        one = self.first(x)
        two = self.second(one)
        three = self.third(two)
        return self.ending(self, one, two, three)


def found(ending, steps=9):
    model = Net(ending)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with probed(steps=2) as session:
        for _ in range(steps):
            optimizer.zero_grad()
            model(torch.randn(256, WIDTH)).backward()
            optimizer.step()
    assert "invariants" not in session.profile["notes"]
    rows = session.profile["in_vain"]["unused_results"]
    return {f"{short(one['path'])}:{one['line']}": one for one in rows}


THIRD = line_of(Net.forward, "three = ")
SECOND = line_of(Net.forward, "two = ")


def first_alone(_net, one, _two, _three):
    return one.square().mean()


def third_by_a_dead_end(net, one, _two, three):
    net.pool((three.exp() @ three.T).softmax(-1)[None])
    return one.square().mean()


@pytest.mark.parametrize("ending", [first_alone, third_by_a_dead_end])
def test_lines_are_named_whose_results_nothing_uses(ending):
    rows = found(ending)
    assert {SECOND, THIRD} <= rows.keys()
    assert rows[THIRD]["share"] > rows[SECOND]["share"] > 0.01
    assert rows[THIRD]["part"] == 1.0
    assert line_of(Net.forward, "one = ") not in rows


def all_of_them(_net, _one, _two, three):
    return three.square().mean()


def read_by_the_host(_net, one, _two, three):
    return one.square().mean() * (1.0 + 0.0 * three.mean().item())


def read_by_numpy(_net, one, _two, three):
    return one.square().mean() * (1.0 + 0.0 * float(three.detach().numpy().mean()))


def chosen(_net, one, _two, three):
    return one[three.argmax(1) % 2 == 0].square().mean()


def chosen_by_numpy(_net, one, _two, three):
    numbers = three.max(1)[1].numpy()
    return one[torch.from_numpy(numbers) % 2 == 0].square().mean()


def kept(net, one, _two, three):
    net.kept.append(three)
    return one.square().mean()


def detached(_net, one, _two, three):
    return functional.mse_loss(one, three.detach()[:, :WIDTH])


def written(_net, one, _two, three):
    table = torch.zeros(256, 4 * WIDTH)
    table.copy_(three)
    return one.square().mean() + table[0].mean()


def statistics(net, one, two, three):
    net.norm(two + three[:, :WIDTH])
    return one.square().mean()


def without_gradients(_net, one, two, _three):
    with torch.no_grad():
        for _ in range(20):
            two @ two.T
    return (one + _three[:, :WIDTH]).square().mean()


@pytest.mark.parametrize(
    "ending",
    [
        all_of_them, read_by_the_host, read_by_numpy, chosen, chosen_by_numpy, kept, detached,
        written, statistics, without_gradients,
    ],
)  # fmt: skip
def test_what_may_be_used_is_not_named(ending):
    assert not found(ending).keys() & {SECOND, THIRD}
