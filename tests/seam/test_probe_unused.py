"""Work of a step most of whose result is thrown away, as two diagnostic steps see it."""

import pytest
import torch
import torch._dynamo
from probing_help import line_of, probed
from torch import nn
from torch.nn import functional

from hotlap.seam.where import short

BATCH, LENGTH, WIDTH, WORDS = 16, 20, 32, 4000


@pytest.fixture(autouse=True)
def nothing_compiled():
    torch._dynamo.utils.counters.clear()


class Net(nn.Module):
    """All work but that of `scores` is light; `picking` takes out of them what the loss reads."""

    def __init__(self, picking):
        super().__init__()
        self.embed, self.norm = nn.Embedding(WORDS, WIDTH), nn.LayerNorm(WIDTH)
        self.head = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WORDS))
        self.encoder = nn.TransformerEncoderLayer(WIDTH, 4, 256, batch_first=True)
        self.kept = []
        self.picking = picking

    def forward(self, x):
        hidden = self.norm(self.embed(x))
        scores = self.head(hidden)
        return self.picking(self, x, scores)


def found(picking, steps=9):
    model = Net(picking)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with probed(steps=2) as session:
        for _ in range(steps):
            optimizer.zero_grad()
            model(torch.randint(WORDS, (BATCH, LENGTH))).square().mean().backward()
            optimizer.step()
    assert "invariants" not in session.profile["notes"]
    return session.profile["unused"]


def last(_net, _x, scores):
    return scores[:, -1]


def last_of_each(_net, x, scores):
    return scores[torch.arange(BATCH), x.max(1).values % LENGTH]


def gathered(_net, x, scores):
    at = (x[:, :1] % LENGTH)[..., None].expand(-1, 1, WORDS)
    return scores.gather(1, at)


def last_of_what_is_made_of_all(_net, _x, scores):
    made = functional.gelu(scores * 0.5 + scores).log_softmax(-1)
    return made[:, -1:]


def last_twice(_net, _x, scores):
    return scores[:, -1].exp() + scores[:, -1]


@pytest.mark.parametrize(
    "picking", [last, last_of_each, gathered, last_of_what_is_made_of_all, last_twice]
)
def test_the_line_is_named_that_computes_rows_which_nothing_uses(picking):
    rows = {f"{short(one['path'])}:{one['line']}": one for one in found(picking)}
    one = rows[line_of(Net.forward, "scores = ")]
    used = 2 / LENGTH if picking is last_of_what_is_made_of_all else 1 / LENGTH  # read twice
    assert one["used"] == pytest.approx(used)
    assert one["differentiated"]
    assert 0.05 < one["share"] < 1.0
    texts = {gathered: "scores.gather", last_of_what_is_made_of_all: "made["}
    picked = line_of(picking, texts.get(picking, "return scores["))
    assert f"{short(one['picked_path'])}:{one['picked_line']}" == picked


def masked(_net, x, scores):
    return scores[x < WORDS // 10]


def test_rows_that_a_mask_picks_are_some_at_each_step():
    used = [one["used"] for one in found(masked)]
    assert used
    assert all(0.0 < part < 0.3 for part in used)


def all_of_them(_net, _x, scores):
    return scores.flatten(0, 1)


def half_and_half(_net, _x, scores):
    return torch.stack([part.exp() for part in scores.chunk(2, 1)])


def most(_net, _x, scores):
    return scores[:, 1:]


def the_mean(_net, _x, scores):
    return scores.mean(1)


def one_word_of_each(_net, x, scores):
    return scores.gather(2, x[..., None])


def words(_net, _x, scores):
    return scores[..., :8]


def last_and_what_numpy_reads(net, _x, scores):
    net.kept.append(float(scores.detach().numpy().sum()))
    return scores[:, -1]


def last_and_all_of_them(_net, _x, scores):
    return scores[:, -1] + scores.logsumexp((1, 2))[:, None]


def last_after_a_write(_net, _x, scores):
    scores = scores.clone()
    scores.copy_(scores.roll(1, 1))
    return scores[:, -1] + scores.amax(1)


def along_other_dimensions(_net, _x, scores):
    mixed = scores.softmax(1)
    return functional.layer_norm(mixed, mixed.shape[1:])[:, -1]


def of_an_encoder(net, x, _scores):
    return net.encoder(net.embed(x))[:, 0] + _scores.amax((1, 2))[:, None]


def by_a_higher_order_operator(_net, _x, scores):
    return torch.cond(scores.sum() > -1e30, lambda t: t * 1, lambda t: t * 2, (scores[:, -1],))


@pytest.mark.parametrize(
    "picking",
    [
        all_of_them, half_and_half, most, the_mean, one_word_of_each, words, last_and_all_of_them,
        last_and_what_numpy_reads, last_after_a_write, along_other_dimensions, of_an_encoder,
    ],
)  # fmt: skip
def test_rows_that_are_used_are_not_called_unused(picking):
    assert found(picking) == []


def test_what_only_some_steps_throw_away_is_not_named():
    def now_and_then(net, _x, scores):
        net.kept.append(0)
        return scores[:, -1] if len(net.kept) % 2 else scores.flatten(0, 1)

    assert found(now_and_then) == []


def test_of_a_step_with_reads_that_no_operator_shows_nothing_is_said():
    def mapped(_net, _x, scores):
        return torch.vmap(lambda row: row.sum())(scores)[:, None] + scores[:, -1]

    assert found(mapped) == []
