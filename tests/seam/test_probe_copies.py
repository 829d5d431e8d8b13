"""Work on copies of one thing, as a diagnostic step sees it."""

import pytest
import torch
from probing_help import diagnosed, line_of
from torch import nn
from torch.nn import functional

from hotlap.seam.where import short

pytestmark = pytest.mark.usefixtures("nothing_compiled")
BATCH, COPIES, WIDTH = 12, 5, 96


class Net(nn.Module):
    def __init__(self, work):
        super().__init__()
        self.inner, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 4)
        self.queries = nn.Parameter(torch.randn(40, WIDTH))
        self.mixing = nn.Parameter(torch.eye(WIDTH) + 0.1 * torch.randn(WIDTH, WIDTH))
        self.work = work

    def encode(self, x):
        return self.inner(self.inner(x).tanh()).tanh()

    def forward(self, x):
        return self.head(self.work(self, x))


def found(work):
    """The copied work of a training whose model calls `work`."""
    torch.manual_seed(0)
    return diagnosed(Net(work), lambda: torch.randn(BATCH, 40, WIDTH))["in_vain"]["copied_work"]


def expanded_queries(net, x):
    queries = net.queries.expand(len(x), -1, -1)
    made = net.encode(queries)
    return x + made


def repeated_queries(net, x):
    queries = net.queries.repeat(len(x), 1, 1)
    made = net.encode(queries)
    return x + made


def samples_interleaved(net, x):
    many = x.repeat_interleave(COPIES, 0)
    made = net.encode(many)
    return made + torch.randn(BATCH * COPIES, 1, WIDTH)


def samples_repeated(net, x):
    many = x.repeat(COPIES, 1, 1)
    made = net.encode(many)
    return made + torch.randn(BATCH * COPIES, 1, WIDTH)


def samples_expanded(net, x):
    many = x.unsqueeze(1).expand(-1, COPIES, -1, -1)
    made = net.encode(many)
    return made + torch.randn(BATCH, COPIES, 1, WIDTH)


def expanded_matrix(net, x):
    mixing = net.mixing.expand(len(x), -1, -1)
    return x + torch.linalg.slogdet(mixing)[1].view(-1, 1, 1)


def nodes_of_edges(net, x):
    edges = torch.randint(0, len(x), (BATCH * COPIES,))
    rows = x[edges]
    made = net.inner(rows)
    return made + torch.randn(BATCH * COPIES, 1, WIDTH)


def both_ends_of_edges(net, x):
    nodes, wide = x.flatten(0, 1), functional.linear
    ends = torch.randint(0, len(nodes), (2, len(nodes) * COPIES))
    rows = torch.cat([nodes.index_select(0, ends[0]), nodes.index_select(0, ends[1])], -1)
    made = wide(rows, net.inner.weight.repeat(1, 2))
    return made.view(COPIES, -1, WIDTH).sum(0).view(x.shape)


def classified_after_interpolation(net, x):
    large = functional.interpolate(x.unsqueeze(1), scale_factor=2.0, mode="bilinear")
    made = functional.conv2d(large, net.inner.weight[:8, :1, None, None])
    return x + made.mean(1)[:, ::2, ::2]


@pytest.mark.parametrize(
    ("work", "text", "copies"),
    [
        (classified_after_interpolation, "functional.conv2d", 4),
        (nodes_of_edges, "net.inner", COPIES),
        (both_ends_of_edges, "wide(rows", COPIES),
        (expanded_queries, "net.encode", BATCH),
        (repeated_queries, "net.encode", BATCH),
        (samples_interleaved, "net.encode", COPIES),
        (samples_repeated, "net.encode", COPIES),
        (samples_expanded, "net.encode", COPIES),
        (expanded_matrix, "slogdet", BATCH),
    ],
)
def test_work_on_copies_is_found_on_the_line_that_does_it(work, text, copies):
    (row,) = found(work)
    assert f"{short(row['path'])}:{row['line']}" == line_of(work, text)
    assert (row["times"], row["differentiated"]) == (copies, True)
    assert row["part"] > 0.3
    assert row["share"] > 0.05


def mended_queries(net, x):
    return x + net.encode(net.queries).expand(len(x), -1, -1)


def own_samples(net, x):
    return net.encode(x)


def noise_before(net, x):
    many = x.repeat_interleave(COPIES, 0) + torch.randn(BATCH * COPIES, 1, WIDTH)
    return net.encode(many)


def nothing_but_copies(net, x):
    shown = net.queries.expand(len(x), -1, -1)
    return net.encode(torch.cat([shown, x], 1))


def few_of_many_rows(net, x):
    return net.encode(x[torch.randint(0, len(x), (len(x),))])


def own_features_of_edges(net, x):
    edges = torch.randint(0, len(x), (BATCH * COPIES,))
    features = torch.randn(BATCH * COPIES, 40, 3 * WIDTH)
    wide = functional.linear
    rows = torch.cat([x[edges], features], -1)
    return wide(rows, net.inner.weight.repeat(1, 4))


def smoothed_after_interpolation(net, x):
    large = functional.interpolate(x.unsqueeze(1), scale_factor=2.0, mode="bilinear")
    made = functional.conv2d(large, net.inner.weight[:9, :9].reshape(9, 1, 3, 3), padding=1)
    return x + made.mean(1)[:, ::2, ::2]


def written_to_before_the_product(net, x):
    edges = torch.randint(0, len(x), (BATCH * COPIES,))
    rows = x[edges]
    rows += torch.randn(BATCH * COPIES, 1, WIDTH)
    return net.inner(rows)


def summed_over_the_rows(net, x):
    nodes = x.flatten(0, 1)
    rows = nodes.index_select(0, torch.randint(0, len(nodes), (len(nodes) * COPIES,)))
    summed = rows.t() @ torch.randn(len(rows), 1)
    return x + summed.squeeze(1)


def one_number(net, x):
    return net.encode(x) + torch.zeros(len(x), 40, WIDTH).exp().mul(2.0).sqrt()


OTHERS = (
    mended_queries, own_samples, noise_before, nothing_but_copies, one_number, few_of_many_rows,
    own_features_of_edges, smoothed_after_interpolation, written_to_before_the_product,
    summed_over_the_rows,
)  # fmt: skip


@pytest.mark.parametrize("work", OTHERS)
def test_other_work_is_not(work):
    assert found(work) == []
