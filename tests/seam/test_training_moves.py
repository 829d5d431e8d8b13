"""Moves that change the training: what they do to rates, batches and gradients, and their undo."""

import pytest
import torch
from applying import on, torch_is_left_as_it_was  # noqa: F401
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from hotlap.seam.training import LAST, PEAK, START, cycle

DATA = TensorDataset(torch.arange(64.0).unsqueeze(1))


def stepped(cls, steps, **how):
    """The distances that a parameter with gradient 1 goes, and its optimizer."""
    parameter = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = cls([parameter], lr=0.1, **how)
    went = []
    for _ in range(steps):
        before = parameter.item()
        parameter.grad = torch.ones_like(parameter)
        optimizer.step()
        went.append(before - parameter.item())
    return went, optimizer


def test_the_cycle_rises_to_its_peak_and_falls():
    values = [cycle(x / 100) for x in range(101)]
    assert values[0] == pytest.approx(START)
    assert max(values) == pytest.approx(1.0)
    assert values.index(max(values)) == 30
    assert values[-1] == pytest.approx(LAST)
    assert cycle(7.0) == pytest.approx(LAST)


def test_one_cycle_scales_each_step_and_leaves_the_rate_to_the_program():
    with on("lr_schedule", steps=10) as seams:
        went, optimizer = stepped(torch.optim.SGD, 10)
        assert optimizer.param_groups[0]["lr"] == 0.1
    assert went == pytest.approx([0.1 * PEAK * cycle(step / 10) for step in range(10)])
    assert "lr_schedule" in seams.holds
    assert stepped(torch.optim.SGD, 1)[0] == pytest.approx([0.1])


@pytest.mark.parametrize(("cls", "scale"), [(torch.optim.SGD, 4.0), (torch.optim.Adam, 2.0)])
def test_a_larger_batch_goes_with_a_larger_rate(cls, scale):
    plain, _ = stepped(cls, 3)
    with on("batch_size", times=4) as seams:
        assert stepped(cls, 3)[0] == pytest.approx(plain)  # no loader, no larger batch
        assert not seams.holds
        sizes = [loader.batch_size for loader in (
            DataLoader(DATA, 8, shuffle=True), DataLoader(DATA, batch_size=8, shuffle=True),
            DataLoader(DATA, 8), DataLoader(DATA), DataLoader(DATA, None),
        )]  # fmt: skip
        assert sizes == [32, 32, 8, 1, None]
        assert stepped(cls, 3)[0] == pytest.approx([scale * went for went in plain])
    assert DataLoader(DATA, 8, shuffle=True).batch_size == 8
    assert "batch_size" in seams.holds


def test_gradients_are_clipped_to_norm_1():
    parameter = nn.Parameter(torch.zeros(4))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    with on("gradient_clipping"):
        parameter.grad = torch.full((4,), 5.0)
        optimizer.step()
    torch.testing.assert_close(parameter.detach().norm(), torch.tensor(1.0))
    parameter.grad = torch.full((4,), 5.0)
    optimizer.step()
    assert parameter.detach().norm() > 5


def test_adam_with_decay_becomes_adamw():
    expected, _ = stepped(torch.optim.AdamW, 5, weight_decay=0.3)
    plain, _ = stepped(torch.optim.Adam, 5, weight_decay=0.3)
    with on("adamw") as seams:
        assert stepped(torch.optim.Adam, 5)[0] == stepped(torch.optim.Adam, 5, weight_decay=0.0)[0]
        assert not seams.holds
        ours, _ = stepped(torch.optim.Adam, 5, weight_decay=0.3)
    assert ours == pytest.approx(expected)
    assert ours != pytest.approx(plain)
