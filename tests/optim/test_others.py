"""LARS and LAMB against two independent implementations, brought to the same conventions.

Where they differ from the papers: torch_optimizer's Lamb has no bias correction, and clamps the
weight's norm at 10. pytorch_optimizer's Lamb clamps likewise, and by default divides the step by
1 - beta1^t only. Both keep LARS's rate out of its momentum, which is the same at a constant rate;
torch_optimizer's LARS adapts only where there is weight decay. All adapt biases in LAMB.
"""

from typing import Any

import pytest
import torch

from hotlap.optim import LAMB, LARS, NVLAMB

SHAPES = [(7, 5), (3, 4, 3, 3), (2, 40)]
PLAIN: dict[str, Any] = {"bias_correction": False, "norm_bounds": (0.0, 10.0)}


def train(kind: Any, options: dict[str, Any]) -> list[torch.Tensor]:
    torch.manual_seed(0)
    ps = [torch.randn(shape, dtype=torch.float64).requires_grad_() for shape in SHAPES]
    optimizer = kind(ps, **options)
    for step in range(25):
        for p in ps:
            generator = torch.Generator().manual_seed(step)
            p.grad = torch.randn(p.shape, dtype=torch.float64, generator=generator)
        optimizer.step()
    return ps


LAMBS = {"lr": 0.01, "betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.02}
LARSES = {"lr": 0.5, "momentum": 0.9, "weight_decay": 0.02, "trust_coefficient": 1e-2}


@pytest.mark.parametrize(
    ("package", "name", "theirs", "ours", "options"),
    [
        ("torch_optimizer", "Lamb", LAMBS, LAMB, LAMBS | PLAIN),
        (
            "pytorch_optimizer",
            "Lamb",
            LAMBS | {"weight_decouple": False, "adam_debias": True},
            LAMB,
            LAMBS | PLAIN,
        ),
        (
            "pytorch_optimizer",
            "Lamb",
            LAMBS | {"weight_decouple": False, "adam_debias": True, "pre_norm": True},
            NVLAMB,
            LAMBS | PLAIN | {"max_grad_norm": 1.0},
        ),
        ("torch_optimizer", "LARS", LARSES, LARS, LARSES),
        ("pytorch_optimizer", "LARS", LARSES, LARS, LARSES),
    ],
)
def test_agrees_with(package: str, name: str, theirs: Any, ours: Any, options: Any) -> None:
    module = pytest.importorskip(package)
    for one, other in zip(train(getattr(module, name), theirs), train(ours, options), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)
