"""Work of a step most of whose result is thrown away, as two diagnostic steps see it."""

import pytest
import torch
from probing_help import diagnosed, line_of, probed
from torch import nn
from torch._higher_order_ops.cond import cond_op
from torch.nn import functional

from hotlap.seam.where import short

pytestmark = pytest.mark.usefixtures("nothing_compiled")
BATCH, LENGTH, WIDTH, WORDS = 16, 20, 32, 4000


class Net(nn.Module):
    """All work but that of `scores` is light; `picking` takes out of them what the loss reads."""

    def __init__(self, picking):
        super().__init__()
        self.embed, self.norm = nn.Embedding(WORDS, WIDTH), nn.LayerNorm(WIDTH)
        self.head = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WORDS))
        self.gate = nn.Parameter(torch.zeros(BATCH, LENGTH, 1))
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


def last_divided(_net, _x, scores):
    return scores[:, -1].view(BATCH, 8, -1)


def last_normalised(_net, _x, scores):
    return functional.normalize(scores, dim=-1)[:, -1]


def embedded(_net, x, scores):
    table = functional.normalize(scores.flatten(0, 1), dim=-1)
    return functional.embedding(x[:, 0] % BATCH, table)


@pytest.mark.parametrize(
    "picking",
    [
        last_normalised,
        embedded,
        last,
        last_of_each,
        gathered,
        last_of_what_is_made_of_all,
        last_twice,
        last_divided,
    ],
)
def test_the_line_is_named_that_computes_rows_which_nothing_uses(picking):
    rows = {f"{short(one['path'])}:{one['line']}": one for one in found(picking)}
    one = rows[line_of(Net.forward, "scores = ")]
    assert one["used"] == pytest.approx(1 / LENGTH)
    assert one["differentiated"]
    assert 0.05 < one["share"] < 1.0
    texts = {
        embedded: "embedding(",
        last_normalised: "return ",
        gathered: "scores.gather",
        last_of_what_is_made_of_all: "made[",
    }
    picked = line_of(picking, texts.get(picking, "return scores["))
    assert f"{short(one['picked_path'])}:{one['picked_line']}" == picked


class Gaussian(nn.Module):
    """The covariance of a batch of points, of which `taking` takes the diagonal."""

    def __init__(self, taking):
        super().__init__()
        self.scale, self.taking = nn.Parameter(torch.eye(WIDTH)), taking

    def forward(self, x):
        a = x @ self.scale
        root = a @ a.T
        cov = root @ root.T + 1e-3
        return self.taking(cov)


def traced(cov):
    return cov.trace()[None]


@pytest.mark.parametrize("taking", [torch.diagonal, torch.diag, traced])
def test_a_matrix_of_which_the_diagonal_is_used_is_named(taking):
    model = Gaussian(taking)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    with probed(steps=2) as session:
        for _ in range(9):
            optimizer.zero_grad()
            model(torch.randn(300, WIDTH)).mean().backward()
            optimizer.step()
    (one,) = session.profile["unused"]
    assert f"{short(one['path'])}:{one['line']}" == line_of(Gaussian.forward, "cov = ")
    assert one["diagonal"]
    assert one["used"] == pytest.approx(1 / 300)


def known(x):
    """A tenth of the positions, other ones at each step."""
    return x < WORDS // 10


def masked(_net, x, scores):
    return scores[known(x)]


def multiplied_by_a_mask(_net, x, scores):
    flat, mask = scores.flatten(0, 1), known(x).flatten()
    logs = flat.log_softmax(-1)
    losses = -logs.gather(1, x.flatten()[:, None]).squeeze(1) - 0.1 * logs.mean(-1)
    spread = flat.logsumexp(-1).square()
    return ((losses + 1e-4 * spread) * mask).sum() / mask.sum()


def multiplied_before_the_sum(_net, x, scores):
    return ((scores - 1.0).square() * known(x)[..., None].float()).sum(-1)


def chosen(_net, x, scores):
    return torch.where(known(x), scores.logsumexp(-1), 0.0)


def filled(_net, x, scores):
    return scores.logsumexp(-1).masked_fill(~known(x), 0.0)


def ignored_by_the_loss(_net, x, scores):
    targets = torch.where(known(x), x, -100)
    return functional.cross_entropy(scores.flatten(0, 1), targets.flatten())


def squared_errors(_net, x, scores):
    return functional.mse_loss(scores, scores + 1, reduction="none").mean(-1) * known(x)


def routed(net, x, scores):
    """As in a mixture of experts, each of which computes all positions."""
    weight, expert = net.norm(net.embed(x))[..., :8].softmax(-1).topk(1)
    gates = torch.zeros(BATCH, LENGTH, 8).scatter(-1, expert, weight)
    return gates[..., :1] * scores


@pytest.mark.parametrize(
    "picking",
    [
        masked, routed, multiplied_by_a_mask, multiplied_before_the_sum, chosen, filled,
        ignored_by_the_loss, squared_errors,
    ],
)  # fmt: skip
def test_rows_that_a_mask_leaves_out_are_not_used(picking):
    rows = {f"{short(one['path'])}:{one['line']}": one for one in found(picking)}
    assert 0.02 < rows[line_of(Net.forward, "scores = ")]["used"] < 0.25


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


def two_masks(_net, x, scores):
    losses = scores.logsumexp(-1)
    return losses * known(x) + losses.square() * ~known(x)


def a_mask_of_ones(_net, x, scores):
    return scores.logsumexp(-1) * (x >= 0)


def random_elements(_net, _x, scores):
    return functional.dropout(scores, 0.9)


def weighted_by_what_is_learned(net, _x, scores):
    return scores.logsumexp(-1) * functional.relu(net.head[0].bias[:LENGTH] - 1e9)


def weighted_by_a_parameter(net, _x, scores):
    """Of zeros: their gradients depend on all rows."""
    return scores * net.gate


def summed_over_another_dimension(_net, x, scores):
    return scores.sum(1) * known(x[:, :1])


def along_other_dimensions(_net, _x, scores):
    mixed = scores.softmax(1)
    return functional.layer_norm(mixed, mixed.shape[1:])[:, -1]


def of_an_encoder(net, x, _scores):
    return net.encoder(net.embed(x))[:, 0] + _scores.amax((1, 2))[:, None]


def by_a_layer_that_another_one_follows(net, x, _scores):
    hidden, blocks = net.embed(x), [net.head[0], net.head[0]]
    for block in blocks:
        hidden = block(hidden)
        if block is blocks[0]:
            hidden = hidden + hidden.mean(1, keepdim=True)
    return hidden[:, -1].sum() + _scores.amax((1, 2))


def by_a_higher_order_operator(_net, x, scores):
    seen = cond_op(x.sum() > -1, torch.sin, torch.cos, (scores.data,))
    return scores[:, -1] + seen.amax()


@pytest.mark.parametrize(
    "picking",
    [
        all_of_them, half_and_half, most, the_mean, one_word_of_each, words, last_and_all_of_them,
        last_and_what_numpy_reads, last_after_a_write, along_other_dimensions, of_an_encoder,
        two_masks, a_mask_of_ones, random_elements, weighted_by_what_is_learned,
        weighted_by_a_parameter, summed_over_another_dimension, by_a_layer_that_another_one_follows,
        by_a_higher_order_operator,
    ],
)  # fmt: skip
def test_rows_that_are_used_are_not_called_unused(picking):
    assert found(picking) == []


class Vision(nn.Module):
    """A convolutional policy: `taking` takes what the loss reads out of what `head` made."""

    def __init__(self, taking, norm=None):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), norm or nn.Identity(), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, BATCH, 3), nn.GroupNorm(4, BATCH), nn.Hardswish(),
        )  # fmt: skip
        self.pool, self.head, self.taking = nn.AdaptiveAvgPool2d(1), nn.Linear(BATCH, 4), taking

    def forward(self, x):
        maps = self.body(x) * 0.5
        return self.taking(self, maps)


def some_samples(net, maps):
    return net.head(net.pool(maps).flatten(1))[torch.randperm(BATCH)[: BATCH // 4]]


def some_maps(net, maps):
    few = slice(BATCH // 4)
    return net.head(maps.mean((2, 3)) + 1)[few] + maps[few].amax((1, 2, 3))[:, None]


def masked_samples(_net, maps):
    mask = (torch.arange(BATCH) < BATCH // 4).float()
    return (maps.square() * mask[:, None, None, None]).sum((1, 2, 3))


def pictures():
    return torch.randn(BATCH, 1, 20, 20)


def seen_by_vision(taking, norm=None):
    rows = diagnosed(Vision(taking, norm), pictures, lr=1e-3)["unused"]
    return {f"{short(one['path'])}:{one['line']}": one for one in rows}


@pytest.mark.parametrize("taking", [some_samples, some_maps, masked_samples])
@pytest.mark.parametrize("norm", [None, nn.BatchNorm2d(8).eval()])
def test_samples_that_go_through_convolutions_in_vain_are_named(taking, norm):
    rows = seen_by_vision(taking, norm)
    one = rows[line_of(Vision.forward, "maps = ")]
    assert one["used"] == pytest.approx(1 / 4)
    assert one["share"] > 0.2


class Guided(nn.Module):
    """A model that is run with its condition and without, of which each sample takes one."""

    def __init__(self, without):
        super().__init__()
        self.first, self.last = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(32, 1, 3, padding=1)
        self.condition, self.without = nn.Linear(4, 16), without

    def denoise(self, x, condition):
        shift = self.condition(condition)[:, :, None, None]
        maps = nn.functional.silu(self.first(x) + shift)
        return self.last(torch.cat([maps, nn.functional.avg_pool2d(maps, 3, 1, 1)], 1))

    def forward(self, x):
        condition = torch.randn(BATCH, 4)
        guided = self.denoise(x, condition)
        plain = self.denoise(x, torch.zeros_like(condition))
        return torch.where(self.without, plain, guided)


def samples(part):
    return (torch.arange(BATCH) < part * BATCH).view(-1, 1, 1, 1)


def guided_by(without):
    """The unused rows of a training of a guided model."""
    return diagnosed(Guided(without), pictures, lr=1e-3)["unused"]


@pytest.mark.parametrize(
    ("part", "text"), [(0.25, "plain = self.denoise"), (0.75, "guided = self.denoise")]
)
def test_of_a_model_that_is_run_twice_the_call_is_named_whose_samples_are_not_used(part, text):
    (one,) = guided_by(samples(part))
    assert f"{short(one['path'])}:{one['line']}" == line_of(Guided.forward, text)
    assert one["used"] == pytest.approx(0.25)
    assert one["share"] > 0.2
    assert one["picked_line"]


def test_pixels_of_each_sample_may_need_all_samples():
    assert not guided_by(torch.arange(20) < 5)
    assert not guided_by(torch.arange(20).view(20, 1) < 5)


def some_channels(net, maps):
    return net.head(net.pool(maps).flatten(1))[:, :1] + maps[:, torch.arange(4)].mean((1, 2, 3))


def masked_channels(_net, maps):
    """As many channels as samples."""
    mask = (torch.arange(BATCH) < BATCH // 4).float()
    return (maps.square() * mask[:, None, None]).sum((1, 2, 3))


def chosen_channels(_net, maps):
    return maps[:, torch.arange(BATCH) < BATCH // 4].square().mean((1, 2, 3))


def all_samples(net, maps):
    scores = net.head(maps.mean((2, 3)))
    return scores[torch.randperm(BATCH)[: BATCH // 4]] + scores.logsumexp(0)


def across_samples(net, maps):
    return net.head((maps - maps.mean(0)).mean((2, 3)))[: BATCH // 4]


@pytest.mark.parametrize(
    "taking", [some_channels, masked_channels, chosen_channels, all_samples, across_samples]
)
def test_channels_and_samples_that_are_used_are_not_named(taking):
    assert seen_by_vision(taking) == {}


def test_a_batch_norm_that_trains_needs_all_samples():
    assert seen_by_vision(some_samples, nn.BatchNorm2d(8)) == {}


def among_sparse_tensors(_net, _x, scores):
    graph = torch.eye(LENGTH).to_sparse()
    mixed = torch.sparse.mm(graph, torch.ones(LENGTH, 1))
    return scores[:, -1] * mixed.mean()


def test_a_sparse_tensor_does_not_hide_unused_rows():
    places = [f"{short(one['path'])}:{one['line']}" for one in found(among_sparse_tensors)]
    assert line_of(Net.forward, "scores = ") in places


def test_what_only_some_steps_throw_away_is_not_named():
    def now_and_then(net, _x, scores):
        net.kept.append(0)
        return scores[:, -1] if len(net.kept) % 2 else scores.flatten(0, 1)

    assert found(now_and_then) == []
