"""Diagnostic steps compute what the program computes, to the last bit."""

from contextlib import nullcontext

import pytest
import torch
from probing_help import probed
from torch import nn
from torch.nn import functional

pytestmark = pytest.mark.usefixtures("nothing_compiled")


class Net(nn.Module):
    def __init__(self, work):
        super().__init__()
        self.inner, self.work = nn.Linear(24, 24), work

    def forward(self, x):
        return self.work(self.inner(x))


def boxes(x):
    sides = (x[..., 2:4] - x[..., :2]).abs() + 0.1
    return sides.prod(-1) / (1.0 + sides.prod(-1))


def running_product(x):
    return (1.0 + 0.1 * x).cumprod(-1)


def whole_product(x):
    return (1.0 + 0.01 * x[:2, 0]).prod()


def determinant(x):
    return torch.linalg.det(x @ x.mT + torch.eye(24))


def log_determinant(x):
    return torch.linalg.slogdet(x @ x.mT + torch.eye(24))[1]


def picked(x):
    return x[torch.tensor([0, 0, 1]), torch.tensor([2, 2, 3])]


def attention(x):
    return functional.scaled_dot_product_attention(x, x, x)


def distances(x):
    return torch.cdist(x, x.flip(1)) + torch.einsum("bnd,bmd->bnm", x, x)


@pytest.mark.parametrize(
    "work",
    [
        boxes, running_product, whole_product, determinant, log_determinant, picked, attention,
        distances,
    ],
)  # fmt: skip
@pytest.mark.parametrize("layers", [False, True])
def test_a_profiled_training_is_the_same_to_the_last_bit(work, layers):
    def trained(context):
        torch.manual_seed(0)
        model = Net(work)
        optimizer = torch.optim.Adam(model.parameters(), 1e-3)
        gradients = []
        with context as session:
            for _ in range(14):
                optimizer.zero_grad()
                model(torch.randn(8, 24, 24)).square().mean().backward()
                gradients.append(model.inner.weight.grad.clone())
                optimizer.step()
        return torch.stack(gradients), session

    plain, _ = trained(nullcontext())
    seen, session = trained(probed(steps=3, layers=layers))
    assert session.profile["flops"]
    assert not {"invariants", "flops"} & session.profile["notes"].keys()
    assert torch.equal(plain, seen)
