"""Matrix products of which a factor is nearly all zeros, as two diagnostic steps see them."""

import pytest
import torch
from probing_help import line_of, probed
from torch import nn

from hotlap.seam.probe import zeros
from hotlap.seam.where import short

pytestmark = pytest.mark.usefixtures("nothing_compiled")
NODES, WIDTH = 640, 32


class Net(nn.Module):
    """A layer over a graph, of which `adjacency` is the matrix."""

    def __init__(self, adjacency, gather):
        super().__init__()
        self.register_buffer("adjacency", adjacency)
        self.learned = nn.Parameter(adjacency.clone())
        self.layer, self.gather = nn.Linear(WIDTH, WIDTH), gather

    def forward(self, x):
        hidden = self.layer(x)
        return self.gather(self, hidden)


def ring(nodes=NODES, neighbours=1):
    return sum(torch.eye(nodes).roll(one + 1, 1) for one in range(neighbours))


def of_nodes(net, hidden):
    return net.adjacency @ hidden


def transposed(net, hidden):
    return (hidden.T @ net.adjacency.T).T


def batched(net, hidden):
    return torch.einsum("ij,bjd->bid", net.adjacency, hidden.view(1, NODES, WIDTH))


def expanded(net, hidden):
    return torch.bmm(net.adjacency.expand(2, -1, -1), hidden.expand(2, -1, -1))


def learned(net, hidden):
    return net.learned @ hidden


def found(gather, adjacency):
    model = Net(adjacency, gather)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with probed(steps=2) as session:
        for _ in range(9):
            optimizer.zero_grad()
            model(torch.randn(len(adjacency), WIDTH)).square().mean().backward()
            optimizer.step()
    assert "invariants" not in session.profile["notes"]
    return session.profile["sparse"]


@pytest.mark.parametrize("gather", [of_nodes, transposed, batched, expanded])
def test_a_product_with_a_matrix_of_nearly_all_zeros_is_named(gather):
    (one,) = found(gather, ring())
    assert f"{short(one['path'])}:{one['line']}" == line_of(gather, "return ")
    assert one["times"] == NODES
    assert one["differentiated"]
    assert 0.05 < one["share"] < 1.0


@pytest.mark.parametrize(
    ("gather", "adjacency"),
    [
        (learned, ring()),
        (of_nodes, ring(neighbours=8)),
        (of_nodes, ring(nodes=int(zeros.LEAST**0.5) - 8)),
        (of_nodes, torch.rand(NODES, NODES) / NODES),
    ],
)
def test_a_product_that_a_sparse_factor_may_not_speed_up_is_not_named(gather, adjacency):
    assert found(gather, adjacency) == []


def test_the_part_that_is_not_zero_is_counted_where_a_sample_has_few():
    factor = torch.zeros(700, 900)
    factor[::7, 3] = 1.0
    assert zeros.part_kept(factor) == pytest.approx(100 / factor.numel())
    assert zeros.part_kept(factor.T) == pytest.approx(100 / factor.numel())
    assert zeros.part_kept(torch.ones(700, 900)) == 1.0
    assert zeros.part_kept(factor.to_sparse()) == 1.0
    assert zeros.part_kept(torch.empty(0, 900)) == 1.0
