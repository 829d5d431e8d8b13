"""Counting FLOPs changes nothing: outputs and gradients have the bits they have without it."""

import contextlib

import pytest
import torch
from torch import nn

from hotlap.model.flops import FlopCount

LAYERS = [
    nn.SiLU(), nn.GELU(), nn.Mish(), nn.Hardswish(), nn.Softplus(), nn.ELU(), nn.PReLU(), nn.GLU(),
    nn.LogSigmoid(), nn.LayerNorm(64), nn.Linear(64, 64), nn.Softmax(-1), nn.RMSNorm(64),
    nn.Hardtanh(), nn.Softshrink(), nn.LSTM(64, 32, batch_first=True),
    nn.TransformerEncoderLayer(64, 4, 64, dropout=0.0, batch_first=True),
    nn.Sequential(nn.Conv1d(16, 16, 3), nn.BatchNorm1d(16), nn.SiLU(), nn.AvgPool1d(2)),
    nn.Sequential(nn.GroupNorm(4, 16), nn.InstanceNorm1d(16), nn.Upsample(scale_factor=2)),
]  # fmt: skip


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: type(layer).__name__)
def test_bits_stay_as_they_are(layer: nn.Module) -> None:
    x = torch.randn(8, 16, 64)

    def bits(mode: contextlib.AbstractContextManager[object]) -> list[torch.Tensor]:
        given = x.clone().requires_grad_()
        layer.zero_grad()
        with mode:
            out = layer(given)
            out = out[0] if isinstance(out, tuple) else out
            out.square().mean().backward()
        return [out, given.grad, *(p.grad for p in layer.parameters())]

    for plain, counted in zip(bits(contextlib.nullcontext()), bits(FlopCount()), strict=True):
        assert torch.equal(plain, counted)


def test_the_parts_of_what_is_made_of_others_are_counted() -> None:
    with torch.inference_mode(), FlopCount() as count:
        nn.Linear(64, 32)(torch.randn(3, 5, 64)) @ torch.randn(32, 7)
    assert count.total == 2 * 15 * 64 * 32 + 2 * 15 * 32 * 7
