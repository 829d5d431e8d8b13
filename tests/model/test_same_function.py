"""Changes that must leave the function of a model as it is: values, gradients, checkpoints."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

from hotlap.model import drop_bias_before_norm, fuse_conv_norm, pad_hidden, pad_vocabulary

DOUBLE = {"rtol": 1e-10, "atol": 1e-10}


class Branching(nn.Module):
    """Cannot be traced as a whole: the way through it depends on values."""

    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
        self.up = nn.ConvTranspose2d(4, 6, 2, stride=2)
        self.norm = nn.BatchNorm2d(6)

    def forward(self, x):
        x = self.block(x)
        if x.sum() > 1e9:
            return x
        return self.norm(self.up(x))


class Traced(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.grouped = nn.Conv2d(4, 8, 3, groups=2)
        self.second = nn.BatchNorm2d(8, affine=False)
        self.head = nn.Linear(8, 5)
        self.last = nn.BatchNorm1d(5)

    def forward(self, x):
        x = self.norm(self.conv(x)).relu()
        x = self.second(self.grouped(x))
        return self.last(self.head(x.mean((2, 3))))


class Read(nn.Module):
    """The convolution's output is used beside the normalisation, or the layer twice."""

    def __init__(self, twice):
        super().__init__()
        self.conv, self.norm, self.twice = nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4), twice

    def forward(self, x):
        y = self.conv(x)
        return self.norm(self.conv(y)) if self.twice else y + self.norm(y)


def seen(model, channels=3):
    """The model after some training steps' worth of statistics, float64."""
    model = model.double().train()
    for p in model.parameters():
        nn.init.normal_(p, 0.2, 0.5)
    for _ in range(3):
        model(torch.randn(8, channels, 8, 8, dtype=torch.float64) + 1)
    return model


@pytest.mark.parametrize(("make", "channels", "names"), [
    (Traced, 3, ["conv", "grouped", "head"]), (Branching, 4, ["block.0"])])  # fmt: skip
@pytest.mark.parametrize("training", [True, False])
def test_a_dropped_bias_changes_nothing(make, channels, names, training):
    model = seen(make(), channels).train(training)
    without = copy.deepcopy(model)
    assert drop_bias_before_norm(without) == names
    x = torch.randn(8, channels, 8, 8, dtype=torch.float64)
    torch.testing.assert_close(without(x), model(x), **DOUBLE)
    torch.testing.assert_close(without.eval()(x), model.eval()(x), **DOUBLE)
    assert sum(p.numel() for p in without.parameters()) < sum(p.numel() for p in model.parameters())


def test_checkpoints_with_the_bias_load_into_the_model_without_also_inside_another():
    old = nn.ModuleDict({"net": seen(Traced())}).eval()
    saved = old.state_dict()
    kept = {name: tensor.clone() for name, tensor in saved.items()}
    new = Traced().double()
    drop_bias_before_norm(new)
    outer = nn.ModuleDict({"net": new}).eval()
    outer.load_state_dict(saved)
    x = torch.randn(4, 3, 8, 8, dtype=torch.float64)
    torch.testing.assert_close(new(x), old["net"](x), **DOUBLE)
    assert all(torch.equal(saved[name], tensor) for name, tensor in kept.items())
    outer.load_state_dict(outer.state_dict())  # its own, which has no bias
    torch.testing.assert_close(new(x), old["net"](x), **DOUBLE)


@pytest.mark.parametrize("twice", [True, False])
def test_a_layer_with_another_reader_is_left_alone(twice):
    model = seen(Read(twice), 4)
    assert drop_bias_before_norm(model) == []
    x = torch.randn(4, 4, 8, 8, dtype=torch.float64)
    assert torch.equal(fuse_conv_norm(model.eval())(x), model(x))


def test_left_alone_before_a_norm_of_other_axes_behind_a_hook_or_a_parametrization():
    layer_norm = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
    hooked = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    hooked[0].register_forward_hook(lambda *_: None)
    spectral = nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)),
                             nn.BatchNorm1d(4))  # fmt: skip
    for model in (layer_norm, hooked, spectral):
        assert drop_bias_before_norm(model) == []


@pytest.mark.parametrize(("make", "channels"), [(Traced, 3), (Branching, 4)])
def test_fused_for_evaluation(make, channels):
    model = seen(make(), channels)
    with pytest.raises(ValueError, match="eval"):
        fuse_conv_norm(model)
    model.eval()
    fused = fuse_conv_norm(model)
    norms = [m for m in fused.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    assert len(norms) == (1 if make is Branching else 0)
    x = torch.randn(4, channels, 8, 8, dtype=torch.float64)
    torch.testing.assert_close(fused(x), model(x), **DOUBLE)


class Language(nn.Module):
    def __init__(self, tied, bias=False):
        super().__init__()
        self.tokens = nn.Embedding(61, 16)
        self.up, self.down = nn.Linear(16, 37), nn.Linear(37, 16)
        self.head = nn.Linear(16, 61, bias=bias)
        if tied:
            self.head.weight = self.tokens.weight

    def forward(self, ids):
        x = self.tokens(ids)
        return self.head(x + self.down(functional.gelu(self.up(x))))


def losses(model, steps=4):
    """Training with AdamW: the loss of each step; float64."""
    draw = torch.Generator().manual_seed(3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02, weight_decay=0.1)
    found = []
    for _ in range(steps):
        ids = torch.randint(61, (4, 9), generator=draw)
        loss = functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("logits", ["masked", "cut"])
def test_padding_leaves_the_losses_of_training_and_the_checkpoint_as_they_are(tied, bias, logits):
    plain = Language(tied, bias).double()
    padded = copy.deepcopy(plain)
    assert pad_vocabulary(padded, 61, logits=logits) == ["tokens", "head"]
    assert pad_hidden(padded, multiple=8) == [("up", "down")]
    assert padded.tokens.weight.shape == padded.head.weight.shape == (64, 16)
    assert (padded.tokens.weight is padded.head.weight) == tied
    assert padded.up.out_features == 40
    width = padded(torch.zeros(1, 1, dtype=torch.long)).shape[-1]
    assert width == (64 if logits == "masked" else 61)
    assert losses(padded) == pytest.approx(losses(plain), rel=1e-10)
    assert not padded.tokens.weight[61:].any()
    assert not padded.up.weight[37:].any()
    assert not padded.down.weight[:, 37:].any()
    saved = padded.state_dict()
    torch.testing.assert_close(dict(saved), dict(plain.state_dict()), **DOUBLE)
    padded.load_state_dict(saved)
    plain.load_state_dict(saved)
    ids = torch.randint(61, (2, 7))
    torch.testing.assert_close(padded(ids)[..., :61], plain(ids), **DOUBLE)


def test_padding_says_what_is_wrong():
    model = Language(tied=False)
    with pytest.raises(ValueError, match="50 rows"):
        pad_vocabulary(model, 50)
    with pytest.raises(ValueError, match="'masked' or 'cut'"):
        pad_vocabulary(model, 61, logits="none")
    with pytest.raises(ValueError, match="multiple is 0"):
        pad_hidden(model, multiple=0)
    assert pad_vocabulary(model, 61, multiple=61) == []


def test_a_width_behind_an_operator_that_moves_zero_is_not_padded():
    model = nn.Sequential(nn.Linear(5, 7), nn.Sigmoid(), nn.Linear(7, 5))
    assert pad_hidden(model) == []
