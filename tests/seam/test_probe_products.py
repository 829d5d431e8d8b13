"""Products and differences of all pairs, as a diagnostic step sees them."""

import pytest
import torch
from probing_help import diagnosed, line_of
from torch import nn
from torch.nn import functional

from hotlap.seam.where import short

pytestmark = pytest.mark.usefixtures("nothing_compiled")
BATCH, WIDTH = 128, 32


class Net(nn.Module):
    def __init__(self, work):
        super().__init__()
        self.inner, self.other = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.scale = nn.Parameter(torch.ones(WIDTH))
        self.work = work

    def forward(self, x):
        return self.work(self, self.inner(x), self.other(x))


def found(work):
    """The lines that sum up pairs in a training whose model calls `work`."""
    torch.manual_seed(0)
    return diagnosed(Net(work), lambda: torch.randn(BATCH, WIDTH))["pairs"]


def similarities(net, a, b):
    return (a[:, None] * b[None]).sum(-1)


def distances(net, a, b):
    apart = a.unsqueeze(1) - b
    squared = apart**2
    return squared.sum(-1)


def of_expanded(net, a, b):
    a, b = a[:, None].expand(-1, BATCH, -1), b[None].expand(BATCH, -1, -1)
    return (a - b).pow(2).mean(2)


def in_place(net, a, b):
    return (a[:, None] - b).abs_().sum(-1)


def lengths(net, a, b):
    return (a[:, None] - b).norm(dim=-1)


def cosines(net, a, b):
    return functional.cosine_similarity(a[:, None], b[None], dim=-1)


def of_repeated(net, a, b):
    return (a.repeat_interleave(BATCH, 0) - b.repeat(BATCH, 1)).square().sum(-1)


def weighted(net, a, b):
    return (a.unsqueeze(-1) * net.inner.weight).sum(1)


@pytest.mark.parametrize(
    ("work", "text", "since"),
    [
        (similarities, "a[:, None] * b[None]", ""),
        (distances, "squared.sum(-1)", "apart = a.unsqueeze(1) - b"),
        (of_expanded, "(a - b).pow(2)", ""),
        (in_place, ".abs_().sum", ""),
        (lengths, ".norm(dim=-1)", ""),
        (cosines, "functional.cosine_similarity", ""),
        (of_repeated, ".square().sum", ""),
        (weighted, "net.inner.weight).sum", ""),
    ],
)
def test_pairs_that_are_summed_up_are_found(work, text, since):
    (one,) = found(work)
    assert f"{short(one['path'])}:{one['line']}" == line_of(work, text)
    assert line_of(work, since).endswith(f":{one['since']}") if since else not one["since"]
    assert one["times"] >= 32
    assert one["share"] > 0.02
    assert one["differentiated"]


def by_matmul(net, a, b):
    return a @ b.T


def by_cdist(net, a, b):
    return torch.cdist(a, b)


def additive(net, a, b):
    return (a[:, None] + b).tanh().sum(-1)


def gated(net, a, b):
    return ((a[:, None] - b).tanh() * net.scale).sum(-1)


def pooled(net, a, b):
    tokens = torch.randn(BATCH, 64, WIDTH)
    return (torch.softmax((tokens @ net.scale)[..., None], 1) * tokens).sum(1)


def few(net, a, b):
    return (a[:8, None] * b).sum(-1)


def not_summed(net, a, b):
    return a[:, None] * b


@pytest.mark.parametrize("work", [by_matmul, by_cdist, additive, gated, pooled, few, not_summed])
def test_other_work_is_none_of_pairs(work):
    assert found(work) == []
