"""Operators that are slow for what they are given, as two diagnostic steps see them."""

import pytest
import torch
from probing_help import line_of, probed
from torch import nn

from hotlap.core.primes import largest_prime
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
    return session.profile["in_vain"]["sparse_product"]


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


class Reverb(nn.Module):
    """A convolution with as long an echo, by Fourier transforms of this length."""

    def __init__(self, length):
        super().__init__()
        self.echo, self.length = nn.Parameter(torch.randn(length)), length

    def forward(self, x):
        product = torch.fft.rfft(x, n=self.length) * torch.fft.rfft(self.echo)
        return torch.fft.irfft(product, n=self.length)


@pytest.mark.parametrize(
    ("length", "batch", "named"),
    [(4099, 8, 4099), (2 * 2053, 8, 4106), (4096, 8, 0), (17 * 256, 8, 0), (1009, 2, 0)],
)
def test_transforms_of_a_length_with_a_large_prime_factor_are_named(length, batch, named):
    model = Reverb(length)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    with probed(steps=2) as session:
        for _ in range(9):
            optimizer.zero_grad()
            model(torch.randn(batch, length // 2)).square().mean().backward()
            optimizer.step()
    rows = session.profile["in_vain"]["fft_length"]
    found = {f"{short(one['path'])}:{one['line']}": one for one in rows}
    places = {line_of(Reverb.forward, text) for text in ("product = ", "return ")}
    assert set(found) == (places if named else set())
    assert all(one["times"] == named for one in found.values())


def test_largest_prime():
    assert [largest_prime(one) for one in (1, 2, 12, 97, 16001, 2 * 97 * 97, 2**20)] == [
        1, 2, 3, 97, 16001, 97, 2,
    ]  # fmt: skip


KINDS, ROWS = 4, 2048
ROWS_OF, SOURCE = torch.randint(0, KINDS, (ROWS,)), torch.randint(0, ROWS, (ROWS,))


class Relations(nn.Module):
    """A layer that multiplies each row by the matrix of its kind."""

    def __init__(self, multiply):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(KINDS, WIDTH, WIDTH))
        self.table = nn.Embedding(KINDS, WIDTH * WIDTH)
        self.multiply = multiply

    def forward(self, x):
        return self.multiply(self, x)


def by_batch(net, x):
    return torch.bmm(x[SOURCE].unsqueeze(1), net.weight[ROWS_OF]).squeeze(1)


def from_the_left(net, x):
    weight = net.weight.index_select(0, ROWS_OF)
    return (weight.transpose(1, 2) @ x.unsqueeze(-1)).squeeze(-1)


def by_einsum(net, x):
    return torch.einsum("ei,eio->eo", x, net.weight[ROWS_OF])


def by_embedding(net, x):
    weight = net.table(ROWS_OF).view(ROWS, WIDTH, WIDTH)
    return torch.bmm(x.unsqueeze(1), weight).squeeze(1)


def in_groups(net, x):
    order = ROWS_OF.argsort()
    parts = x[order].split(torch.bincount(ROWS_OF, minlength=KINDS).tolist())
    return torch.cat([part @ weight for part, weight in zip(parts, net.weight, strict=True)])


def of_long_rows(net, x):
    return torch.bmm(x.unsqueeze(1).expand(-1, 8, -1), net.weight[ROWS_OF]).mean(1)


def attention(net, x):
    """Vectors that are picked, and no matrices."""
    return torch.bmm(x.view(-1, 1, WIDTH), x[SOURCE].view(-1, WIDTH, 1)) * net.weight.mean()


@pytest.mark.parametrize(
    ("multiply", "text"),
    [
        (by_batch, "torch.bmm"),
        (from_the_left, "index_select"),
        (by_einsum, "torch.einsum"),
        (by_embedding, "net.table"),
        (in_groups, None),
        (of_long_rows, None),
        (attention, None),
    ],
)
def test_matrices_that_are_copied_for_each_row_are_found(multiply, text):
    model = Relations(multiply)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with probed(steps=2) as session:
        for _ in range(9):
            optimizer.zero_grad()
            model(torch.randn(ROWS, WIDTH)).square().mean().backward()
            optimizer.step()
    found = {
        f"{short(one['path'])}:{one['line']}": one["times"]
        for one in session.profile["in_vain"]["picked_matrices"]
    }
    assert set(found.values()) <= {ROWS // KINDS}
    assert (line_of(multiply, text) in found) if text else not found
