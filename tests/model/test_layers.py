"""Costs of layers against counts by hand; reshapes against the plain ones."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from hotlap.model import (
    broken_guidelines,
    channel_shuffle,
    images_from_tokens,
    layer_costs,
    tokens_from_images,
)
from hotlap.model.memory_format import is_channels_last


class Parallel(nn.Module):
    def __init__(self):
        super().__init__()
        self.branches = nn.ModuleList(nn.Conv2d(32, 32, 1, bias=False) for _ in range(4))
        self.wide = nn.Conv2d(32, 256, 1, bias=False)

    def forward(self, x):
        return self.wide(sum(branch(x) for branch in self.branches).relu())


def test_costs_are_those_counted_by_hand():
    model, x = Parallel(), torch.randn(2, 32, 5, 7)
    rows = {row.layer: row for row in layer_costs(model, x)}
    first, wide = rows["branches.0"], rows["wide"]
    assert first.flops == 2 * (2 * 5 * 7) * 32 * 32
    assert wide.elements == 70 * (32 + 256) + 32 * 256
    assert wide.traffic == 4 * wide.elements
    assert wide.shape == {"in": 32, "out": 256, "groups": 1, "kernel": 1, "positions": 70}
    assert first.shares_input == 4
    assert wide.shares_input == 1
    assert rows["(root)"].pointwise
    assert not model._forward_hooks
    assert not model.wide._forward_hooks


def test_the_layers_that_break_guidelines_are_named():
    found = {
        (o.guideline[:2], o.layer) for o in broken_guidelines(Parallel(), torch.randn(2, 32, 9, 9))
    }
    assert ("G1", "wide") in found
    assert {layer for rule, layer in found if rule == "G3"} <= {f"branches.{i}" for i in range(4)}
    assert any(rule == "G3" for rule, _ in found)
    assert ("G4", "(root)") in found


def test_hooks_are_removed_when_the_model_fails():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(4, 4))
    with pytest.raises(RuntimeError):
        layer_costs(model, torch.randn(2, 3))
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


@pytest.mark.parametrize("form", [torch.channels_last, torch.contiguous_format])
def test_reshapes_are_those_of_torch_and_keep_the_format(form):
    images = torch.randn(2, 12, 5, 7).contiguous(memory_format=form)
    tokens = tokens_from_images(images)
    assert torch.equal(tokens, images.flatten(2).transpose(1, 2))
    back = images_from_tokens(tokens, 5, 7)
    assert torch.equal(back, images)
    mixed = channel_shuffle(images, 3)
    assert torch.equal(mixed, functional.channel_shuffle(images, 3))
    assert is_channels_last(mixed) == (form is torch.channels_last)
    if form is torch.channels_last:
        assert tokens.data_ptr() == images.data_ptr() == back.data_ptr()
        assert tokens.is_contiguous()
        assert is_channels_last(back)


def test_wrong_shapes_are_said():
    with pytest.raises(ValueError, match="four dimensions"):
        tokens_from_images(torch.randn(2, 3))
    with pytest.raises(ValueError, match=r"5 x 6"):
        images_from_tokens(torch.randn(2, 35, 3), 5, 6)
    with pytest.raises(ValueError, match="5 groups"):
        channel_shuffle(torch.randn(1, 12, 2, 2), 5)
