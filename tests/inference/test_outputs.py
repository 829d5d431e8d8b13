"""The comparison of outputs by numerics class."""

import pytest
import torch

from hotlap.core.technique import Numerics
from hotlap.seam.outputs import Outputs
from hotlap.trial.parity import compare_outputs


def recorded(outputs, inputs=None):
    kept = Outputs()
    for index, output in enumerate(outputs):
        given = (inputs[index],) if inputs else (torch.zeros(1, 2),)
        kept.record(given, {}, output)
    return kept.take()


def logits(count=20):
    generator = torch.Generator().manual_seed(torch.seed() % 2**31)
    return [torch.randn(16, 10, generator=generator) for _ in range(count)]


@pytest.mark.parametrize(
    ("change", "numerics", "kept"),
    [
        (lambda t: t.clone(), Numerics.EXACT, True),
        (lambda t: t * (1 + 1e-6), Numerics.EXACT, False),
        (lambda t: t * (1 + 1e-6), Numerics.ROUNDING, True),
        (lambda t: t.bfloat16().float(), Numerics.ROUNDING, False),
        (lambda t: t.bfloat16().float(), Numerics.PRECISION, True),
        (lambda t: t + 0.5 * t.abs().max() * torch.rand_like(t), Numerics.PRECISION, False),
        (lambda t: t.roll(1, -1), Numerics.PRECISION, False),
        (lambda t: t * torch.nan, Numerics.PRECISION, False),
        (lambda t: t[:, :5], Numerics.PRECISION, False),
    ],
)
def test_how_much_outputs_may_differ(change, numerics, kept):
    plain = logits()
    found = compare_outputs(recorded(plain), recorded(map(change, plain)), numerics)
    assert found.kept is kept, found.reason
    assert "loss" not in found.reason


def test_another_choice_counts_though_values_are_near():
    plain = [torch.tensor([[1.0, 0.0, -1.0]] * 8) for _ in range(5)]
    other = [torch.tensor([[0.0, 1.0, -1.0]] * 8) for _ in range(5)]
    assert "differ" in compare_outputs(recorded(plain), recorded(other), Numerics.PRECISION).reason
    close = [torch.tensor([[1.0, 0.9996, -1.0]] * 8) for _ in range(5)]
    turned = [torch.tensor([[0.9996, 1.0, -1.0]] * 8) for _ in range(5)]
    assert compare_outputs(recorded(close), recorded(turned), Numerics.ROUNDING).kept


def test_a_text_that_goes_on_otherwise_is_not_compared():
    plain = logits(12)
    tokens = [torch.randint(0, 50, (2, 1)) for _ in range(12)]
    others = [*tokens[:6], tokens[6] + 1, *tokens[7:]]
    changed = [*plain[:6], *logits(6)]
    found = compare_outputs(recorded(plain, tokens), recorded(changed, others), Numerics.PRECISION)
    assert found.kept
    assert found.steps == 6


def test_too_few_steps_show_nothing():
    plain = logits(2)
    assert not compare_outputs(recorded(plain), recorded(plain), Numerics.EXACT).kept


def test_memory_format_does_not_matter():
    images = [torch.randn(2, 3, 8, 8) for _ in range(4)]
    other = [image.to(memory_format=torch.channels_last) for image in images]
    assert compare_outputs(recorded(images), recorded(other), Numerics.EXACT).kept


def test_recording_is_thinned():
    kept = recorded(torch.zeros(1, 2) for _ in range(200))
    assert [each["step"] for each in kept][-2:] == [176, 192]
