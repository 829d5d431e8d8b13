"""What operators take by the user's lines, forwards and in the backward pass behind them."""

import pytest
import torch
from probing_help import line_of, probed
from torch import nn
from torch.utils.checkpoint import checkpoint

from hotlap.seam.probe.invariants import _Signatures
from hotlap.seam.probe.line_work import Behind, backward_by_line
from hotlap.seam.probe.sampler import hottest

pytestmark = pytest.mark.usefixtures("nothing_compiled")
WIDE = torch.randn(448, 448)


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        for _ in range(20):
            gradient = gradient @ torch.eye(len(x))
        return 3 * x * x * gradient


class Net(nn.Module):
    """`dear` is the work of the line that is to be found; `_` is what other lines do."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(448, 448) / 21)

    def dear(self, x):
        return x @ x @ x

    def forward(self, x):
        x = self.weight * x
        x = self.dear(x)
        return x.mean()


class Custom(Net):
    def dear(self, x):
        return Cube.apply(x)


class Checkpointed(Net):
    def dear(self, x):
        return checkpoint(super().dear, x, use_reentrant=False)


class Penalised(Net):
    """The loss is the gradient's norm: the backward pass is differentiated as well."""

    def forward(self, x):
        x = x.clone().requires_grad_()
        y = self.dear(self.weight * x).mean()
        (gradient,) = torch.autograd.grad(y, x, create_graph=True)
        return gradient.square().mean()


class Unfollowed(Net):
    """The costliest line is not differentiated."""

    def forward(self, x):
        with torch.no_grad():
            mixed = x @ x @ x @ x @ x @ x
        return (self.weight * mixed).exp().mean()


def profile(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    with probed(steps=2) as session:
        for _ in range(9):
            optimizer.zero_grad()
            model(WIDE).backward()
            optimizer.step()
    assert "invariants" not in session.profile["notes"]
    return session.profile


@pytest.mark.parametrize(
    ("kind", "at"),
    [
        (Net, line_of(Net.dear, "return")),
        (Custom, line_of(Cube.backward, "gradient = gradient @")),
        (Checkpointed, line_of(Net.dear, "return")),
        (Penalised, line_of(Net.dear, "return")),
    ],
)
def test_the_backward_pass_is_listed_by_the_lines_it_works_for(kind, at):
    first, *_ = profile(kind())["backward_by_line"]
    assert first["place"] == at
    assert 0.4 < first["share"] <= 1.0
    assert first["operators"][0][0] == "mm"
    assert sum(seconds for _, seconds in first["operators"]) > 0


def test_a_line_that_is_not_differentiated_has_no_part_of_the_backward_pass():
    made = profile(Unfollowed())
    at = line_of(Unfollowed.forward, "mixed = ")
    number, seconds, part = made["operators_on"][__file__][int(at.rpartition(":")[2])]
    assert (number, part) == (5, 0.0)
    assert seconds > 0
    assert at not in {one["place"] for one in made["backward_by_line"]}


def test_operators_of_the_lines_themselves_are_named_beside_the_samples():
    code = Net.dear.__code__
    line = code.co_firstlineno + 1
    stacks = {("forward", ((code, line, 0),)): 3}
    (found,) = hottest(stacks, {}, {(__file__, line): [("mm", 0.002)]})["forward"]
    assert (found.text, found.operators) == ("return x @ x @ x", [("mm", 0.002)])


def test_no_line_is_named_where_much_of_the_backward_pass_is_of_unknown_lines():
    lines = (
        (test_no_line_is_named_where_much_of_the_backward_pass_is_of_unknown_lines.__code__, 9),
    )
    mm, known = torch.ops.aten.mm.default, 0.6
    half = [Behind(lines, mm, known), Behind((), mm, 1 - known)]
    assert backward_by_line(half) == []
    most = [Behind(lines, mm, 0.8), Behind((), mm, 0.2)]
    (one,) = backward_by_line(most)
    assert (one.share, one.operators) == (pytest.approx(0.8), [("mm", 0.8)])


def test_gradients_are_those_without_the_probe():
    def gradient(mode):
        torch.manual_seed(0)
        model = Custom()
        with mode:
            model(WIDE).backward()
        return model.weight.grad

    mode = _Signatures()
    mode.off = False
    assert torch.equal(gradient(torch.enable_grad()), gradient(mode))
    _, behind = mode.restart()
    assert behind


def test_operators_of_a_line_with_several_phases_are_those_of_one():
    code = Net.dear.__code__
    line = code.co_firstlineno + 1
    ran = {(__file__, line): [("mm", 0.002)]}
    at = ((code, line, 0),)
    stacks = {("forward", at): 30, ("backward", at): 60, ("other", at): 7}
    found = {phase: one.operators for phase, (one,) in hottest(stacks, {}, ran).items()}
    assert found == {"forward": [("mm", 0.002)], "backward": [], "other": []}
