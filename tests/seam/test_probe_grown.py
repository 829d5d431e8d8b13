"""Work on what has grown a little, as a diagnostic step sees it."""

import pytest
import torch
from probing_help import diagnosed, line_of
from torch import nn

from hotlap.seam.where import short

pytestmark = pytest.mark.usefixtures("nothing_compiled")
BATCH, TIME, WIDTH = 6, 12, 64


class Net(nn.Module):
    def __init__(self, work):
        super().__init__()
        self.inner = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )
        self.layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, 0.0, batch_first=True)
        self.convolution = nn.Conv1d(WIDTH, WIDTH, 3, padding=1)
        self.head = nn.Linear(WIDTH, 4)
        self.work = work

    def causal(self, x):
        return self.layer(x, nn.Transformer.generate_square_subsequent_mask(x.shape[1]))

    def forward(self, x):
        return self.head(self.work(self, x))


def found(work):
    """The grown work of a training whose model calls `work`."""
    torch.manual_seed(0)
    return diagnosed(Net(work), lambda: torch.randn(BATCH, TIME, WIDTH))["in_vain"]["grown_work"]


def window_encoded(net, x):
    states = []
    for end in range(1, TIME + 1):
        encoded = net.inner(x[:, :end])
        states.append(encoded.mean(1))
    return torch.stack(states, 1)


def prefix_decoded(net, x):
    tokens = x[:, :1]
    for _ in range(TIME):
        decoded = net.causal(tokens)
        tokens = torch.cat([tokens, decoded[:, -1:]], 1)
    return tokens


def window_convolved(net, x):
    states = []
    for end in range(3, TIME + 1):
        encoded = net.convolution(x[:, :end].mT)
        states.append(encoded.mean(-1))
    return torch.stack(states, 1)


def one_more_each_time(net, x):
    rows = [net.inner(x[0, :end]).sum(0) for end in range(4, TIME + 1)]
    return torch.stack(rows)


@pytest.mark.parametrize(
    ("work", "text"),
    [
        (window_encoded, "net.inner"),
        (window_convolved, "net.convolution"),
        (prefix_decoded, "net.causal"),
        (one_more_each_time, "net.inner"),
    ],
)
def test_what_is_computed_again_for_a_longer_input_is_found_on_its_line(work, text):
    (row,) = found(work)
    assert f"{short(row['path'])}:{row['line']}" == line_of(work, text)
    assert row["differentiated"]
    assert 0.3 < row["part"] < 0.95
    assert row["share"] > 0.2


def step_by_step(net, x):
    return torch.stack([net.inner(x[:, at]) for at in range(TIME)], 1)


def other_lengths(net, x):
    rows = [net.causal(torch.randn(BATCH, length, WIDTH)) for length in (3, 5, 8)]
    return torch.cat(rows, 1)


def looked_at_both_ways(net, x):
    rows = [net.layer(x[:, :end].flip(1))[:, -1] for end in range(1, TIME + 1)]
    return torch.stack(rows, 1)


def from_the_other_end(net, x):
    rows = [net.inner(x[:, -end:]).mean(1) for end in range(1, TIME + 1)]
    return torch.stack(rows, 1)


def masked_alike(net, x):
    scores = []
    for length in range(3, TIME + 1):
        fresh = torch.randn(BATCH, length, WIDTH)
        mask = torch.full((length, length), -1e9).triu(1)
        scores.append((fresh @ fresh.mT + mask).softmax(-1) @ net.inner(fresh))
    return torch.cat(scores, 1)


def grown_once(net, x):
    return net.inner(x[:, :4]).mean(1) + net.inner(x).mean(1)


@pytest.mark.parametrize(
    "work",
    [
        step_by_step,
        other_lengths,
        looked_at_both_ways,
        masked_alike,
        from_the_other_end,
        grown_once,
    ],
)
def test_work_on_other_data_is_not_called_known(work):
    assert not found(work)
